"""Designs behind AXI4-Stream ports against other people's masters and slaves."""

import json
from pathlib import Path

import pytest

from mase_hw.deploy.bus import BusOptions
from mase_hw.emit.design import DesignSummary
from tests.deploy.designs import emit, vectors
from tests.deploy.simulation import build, run_cocotb, save_vectors

pytest.importorskip("cocotbext.axi")

CASES = {
    "perceptron-32": ("perceptron", BusOptions("axi-stream", 32), {}),
    "perceptron-8-own-clock": ("perceptron", BusOptions("axi-stream", 8, True), {}),
    "pair-16": ("pair", BusOptions("axi-stream", 16), {"parallelism": 3}),
    "convolution": ("convolution", BusOptions("axi-stream"), {"parallelism": 2}),
    "mxint-64": ("mxint", BusOptions("axi-stream", 64), {}),
    "transformer-32-own-clock": ("transformer", BusOptions("axi-stream", 32, True), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_results_are_equal_under_pauses(name: str, tmp_path: Path) -> None:
    design, bus, options = CASES[name]
    project = emit(design, tmp_path / "net", bus, **options).folder
    inputs, outputs = vectors(project, 40)
    report = tmp_path / "report.json"
    (tmp_path / "build").mkdir()
    files = project / "bus" / "files.f"
    executable = build(project, "top_axis", files, tmp_path / "build")
    environment = {
        "BUS_VECTORS": str(save_vectors(tmp_path / "vectors.npz", inputs, outputs)),
        "BUS_REPORT": str(report),
    }
    count = run_cocotb(executable, project, "tests.deploy.axis_cocotb", environment)
    assert count == 5
    found = json.loads(report.read_text())["interval"]
    if not bus.own_clock:
        assert abs(found - DesignSummary.load(project).interval_cycles) < 1
