"""Pruners by name: what ends a trial early whose accuracy so far is worse than that of others."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mase_hw.errors import ConfigError
from mase_hw.registry import nearest

if TYPE_CHECKING:
    from optuna.pruners import BasePruner

CLASSES = (
    "NopPruner",
    "MedianPruner",
    "PercentilePruner",
    "SuccessiveHalvingPruner",
    "HyperbandPruner",
    "ThresholdPruner",
    "WilcoxonPruner",
)
# Optuna's class by its name in lower case: successive_halving.
PRUNERS: Mapping[str, str] = {
    re.sub(r"(?<=.)(?=[A-Z])", "_", name.removesuffix("Pruner")).lower(): name for name in CLASSES
}


def make_pruner(name: str, options: Mapping[str, object]) -> BasePruner:
    """Return a pruner.

    Args:
        name: one of `PRUNERS`.
        options: arguments of Optuna's class.

    Raises:
        ConfigError: for an unknown pruner or option.
    """
    if name not in PRUNERS:
        raise ConfigError(f"no pruner is called {name!r}; {nearest(name, PRUNERS)}")
    import optuna

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            pruner: BasePruner = getattr(optuna.pruners, PRUNERS[name])(**options)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"pruner {name}: {error}") from error
    return pruner
