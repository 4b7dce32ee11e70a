"""Benchmarks: groups of figures, one a file of `groups`; `python -m tests.bench` measures them."""

from __future__ import annotations

from functools import cache

from mase_hw.registry import discover
from tests.bench.base import Benchmark, Row

__all__ = ["Benchmark", "Row", "benchmarks"]


@cache
def benchmarks() -> dict[str, Benchmark]:
    """Return one instance of every benchmark by name."""
    found = discover(f"{__name__}.groups", Benchmark)  # type: ignore[type-abstract]
    return {cls.name: cls() for cls in found}
