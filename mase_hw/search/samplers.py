"""Samplers and their seeds, and pruners, which end trials early, by name."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mase_hw.errors import ConfigError
from mase_hw.registry import nearest
from mase_hw.search.space import Space

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler

# Name to Optuna's class, and whether a new one with its own seed serves every trial. Those that
# keep a sequence or a state need one seed for the whole study.
SAMPLERS: Mapping[str, tuple[str, bool]] = {
    "random": ("RandomSampler", True),
    "grid": ("GridSampler", False),
    "tpe": ("TPESampler", True),
    "nsga2": ("NSGAIISampler", True),
    "gp": ("GPSampler", True),
    "cmaes": ("CmaEsSampler", False),
    "qmc": ("QMCSampler", False),
}
QUIET = {"CmaEsSampler", "QMCSampler", "GPSampler"}
_PRUNERS = "Nop Median Percentile SuccessiveHalving Hyperband Threshold Wilcoxon"
# Optuna's class by its name in lower case: successive_halving.
PRUNERS: Mapping[str, str] = {
    re.sub(r"(?<=.)(?=[A-Z])", "_", name).lower(): f"{name}Pruner" for name in _PRUNERS.split()
}


def sampler_factory(
    name: str, space: Space, seed: int, options: Mapping[str, object]
) -> Callable[[int], BaseSampler]:
    """Return a function from the number of trials so far to the sampler of the next.

    What a trial proposes depends on the seed and the trials before it alone, so that a search
    that was interrupted goes on as if it had not been.

    A grid enumerates the space; options are further arguments of Optuna's class.

    Raises:
        ConfigError: for an unknown sampler or option, or a grid over a continuous space.
    """
    if name not in SAMPLERS:
        raise ConfigError(f"no sampler is called {name!r}; {nearest(name, SAMPLERS)}")
    title, fresh = SAMPLERS[name]
    arguments: dict[str, object] = dict(options)
    if name == "grid":
        arguments["search_space"] = space.grid()
    if title in QUIET:
        arguments["warn_independent_sampling"] = False
    if title == "QMCSampler":
        arguments = {"scramble": True, **arguments, "warn_asynchronous_seeding": False}

    def make(count: int) -> BaseSampler:
        digest = hashlib.sha256(f"{seed}/{count}".encode()).digest()
        drawn = int.from_bytes(digest[:4], "big") >> 1 if fresh else seed
        sampler: BaseSampler = _made("samplers", title, name, {"seed": drawn, **arguments})
        return sampler

    make(0)
    return make


def make_pruner(name: str, options: Mapping[str, object]) -> BasePruner:
    """Return one of `PRUNERS` with options of Optuna's class.

    Raises:
        ConfigError: for an unknown pruner or option.
    """
    if name not in PRUNERS:
        raise ConfigError(f"no pruner is called {name!r}; {nearest(name, PRUNERS)}")
    pruner: BasePruner = _made("pruners", PRUNERS[name], name, options)
    return pruner


def _made(kind: str, title: str, name: str, options: Mapping[str, object]) -> Any:
    import optuna

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return getattr(getattr(optuna, kind), title)(**options)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{kind.removesuffix('s')} {name}: {error}") from error
