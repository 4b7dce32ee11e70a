"""Benchmarks, found by walking this folder and the entry points `mase_hw.bench`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from mase_hw._registry import discover
from mase_hw.bench._base import Benchmark, Row

__all__ = ["Benchmark", "Row", "benchmarks", "refit"]


@cache
def benchmarks() -> dict[str, Benchmark]:
    """Return one instance of every benchmark by name."""
    return {cls.name: cls() for cls in discover(__name__, Benchmark, "mase_hw.bench")}  # type: ignore[type-abstract]


def refit(progress: Callable[[str], None] | None = None) -> dict[str, float]:
    """Make the coefficients of estimates again; return them. See `mase-hw estimate --fit`."""
    from mase_hw.bench._clock_fit import refit as refit_clock
    from mase_hw.bench._fit import refit as run

    tables = run(progress)
    return tables | {f"clock {name}": value for name, value in vars(refit_clock(progress)).items()}
