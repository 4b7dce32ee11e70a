"""Which tests run in both engines, and simulations that must be right."""

from __future__ import annotations

from typing import Any

import pytest

import mase_hw
from mase_hw.api import SimulationReport
from mase_hw.sim.simulate import ENGINES

FIRST = "native"
# Both by default: what the engines themselves do, in `tests/sim` and on a perceptron.
both = pytest.mark.parametrize("engine", list(ENGINES))
# Of cells and operators the engines see the same ports: the second one is full.
each = pytest.mark.parametrize(
    "engine",
    [pytest.param(name, marks=[] if name == FIRST else pytest.mark.full) for name in ENGINES],
)


def exact(*arguments: Any, **options: Any) -> SimulationReport:
    """Simulate; every bit must be right."""
    report = mase_hw.simulate(*arguments, **options)
    assert report.bit_exact, report.first_mismatch or report.violations
    return report


def as_predicted(*arguments: Any, **options: Any) -> SimulationReport:
    """Simulate; bits, latency and interval must be right."""
    report = exact(*arguments, **options)
    cycles = report.latency_cycles, report.interval_cycles
    assert cycles == (report.predicted_latency_cycles, report.predicted_interval_cycles)
    return report
