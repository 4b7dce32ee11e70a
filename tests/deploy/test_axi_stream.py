"""Designs behind AXI4-Stream ports against other people's masters and slaves."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from mase_hw.deploy.bus import BusOptions
from mase_hw.emit.design import DesignSummary
from tests.deploy.designs import emit, vectors
from tests.deploy.simulation import EVERY, QUICK, SOME, run_tests, save_vectors

pytest.importorskip("cocotbext.axi")

CASES = {
    "perceptron-32": ("perceptron", BusOptions("axi-stream", 32), {}),
    "perceptron-8-own-clock": ("perceptron", BusOptions("axi-stream", 8, True), {}),
    "pair-16": ("pair", BusOptions("axi-stream", 16), {"parallelism": 3}),
    "convolution": ("convolution", BusOptions("axi-stream"), {"parallelism": 2}),
    "mxint-64": ("mxint", BusOptions("axi-stream", 64), {}),
    "transformer-32-own-clock": (
        "transformer",
        BusOptions("axi-stream", 32, True),
        {"parallelism": 4},
    ),
}
# Each breaks the module that sends results, and what must notice it.
FAULTS = {
    "a word is not waited for": (
        ("assign ready = !m_axis_tvalid || m_axis_tready;", "assign ready = 1'b1;"),
        "m_axis_0_t(data changed|valid fell)|SimTimeoutError",
    ),
    "last word is not marked": (("? LastKeep :", "? {BUS_BYTES{1'b1}} :"), "AssertionError"),
}
# One of them guards the way that all take.
GUARD = "perceptron-32"


def simulate(
    project: Path, folder: Path, count: int, names: Sequence[str] = (), moments: int = QUICK
) -> tuple[int, float | None]:
    """Run the tests inside the simulator; return how many passed, and the interval."""
    report = folder / "report.json"
    environment = {
        "BUS_VECTORS": str(save_vectors(folder / "vectors.npz", *vectors(project, count))),
        "BUS_REPORT": str(report),
        "BUS_MOMENTS": str(moments),
    }
    passed = run_tests(project, "axis_cocotb", environment, names)
    return passed, json.loads(report.read_text())["interval"] if report.is_file() else None


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.full] * (name != GUARD)) for name in CASES]
)
def test_results_are_equal_under_pauses(name: str, tmp_path: Path) -> None:
    design, bus, options = CASES[name]
    project = emit(design, tmp_path / "net", bus, **options).folder
    count = int(os.environ.get("MASE_HW_BUS_INFERENCES", "40"))
    moments = QUICK if name == GUARD else SOME
    passed, interval = simulate(project, tmp_path, count, moments=moments)
    assert passed == 9
    if not bus.own_clock:
        assert interval is not None
        assert abs(interval - DesignSummary.load(project).interval_cycles) < 1


@pytest.mark.full
@pytest.mark.parametrize("name", ["perceptron-32", "pair-16"])
def test_a_reset_in_every_cycle_is_told(name: str, tmp_path: Path) -> None:
    design, bus, options = CASES[name]
    project = emit(design, tmp_path / "net", bus, **options).folder
    assert simulate(project, tmp_path, 20, ["resets_at_any_time"], EVERY)[0] == 1


@pytest.mark.full
@pytest.mark.parametrize("name", FAULTS)
def test_a_broken_wrapper_is_noticed(name: str, tmp_path: Path) -> None:
    (right, wrong), told = FAULTS[name]
    project = emit("perceptron", tmp_path / "net", BusOptions("axi-stream", 32)).folder
    path = project / "bus" / "mase_axis_guard.sv"
    text = path.read_text()
    assert text.count(right) == 1
    path.write_text(text.replace(right, wrong))
    with pytest.raises(AssertionError, match=told):
        simulate(project, tmp_path, 20, ["random_pauses"])
