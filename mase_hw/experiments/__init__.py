"""Experiments, found by walking this folder and the entry points `mase_hw.experiments`."""

from __future__ import annotations

from functools import cache

from mase_hw.errors import ConfigError
from mase_hw.experiments._base import Experiment, Outcome, run_experiment, text
from mase_hw.experiments._subject import Subject, classes, mean_and_error
from mase_hw.experiments.areas import designs, dot_product
from mase_hw.registry import discover, nearest

__all__ = [
    "Experiment",
    "Outcome",
    "Subject",
    "classes",
    "designs",
    "dot_product",
    "experiment",
    "experiments",
    "mean_and_error",
    "run_experiment",
    "text",
]


@cache
def experiments() -> dict[str, Experiment]:
    """Return one instance of every experiment by name."""
    return {cls.name: cls() for cls in discover(__name__, Experiment, "mase_hw.experiments")}  # type: ignore[type-abstract]


def experiment(name: str) -> Experiment:
    """Return the experiment called `name`.

    Raises:
        ConfigError: when there is none; the message offers the nearest names.
    """
    if name not in experiments():
        raise ConfigError(f"no experiment is called {name!r}; {nearest(name, experiments())}")
    return experiments()[name]
