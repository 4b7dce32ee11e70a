"""Estimates beside the recorded areas, which Yosys counted."""

import json
from pathlib import Path

import pytest

from mase_hw.hardware.estimate import estimate
from tests.recorded import designs

RECORD = json.loads(Path(__file__).with_name("record.json").read_text())


@pytest.mark.parametrize("name", ["linear-mxint8", "linear-scaled_integer8", "jet-p4", "branches"])
def test_an_estimate_is_near_the_recorded_area(name, tmp_path):
    project, _ = designs.emit(name, tmp_path / "design")
    found, area = estimate(project.mg), RECORD[name]["area"]
    assert found.lut == pytest.approx(area["lut"], rel=0.08)
    assert found.ff == pytest.approx(area["ff"], rel=0.08)
    assert found.dsp == area["dsp"]
    assert found.bram == area["bram"]
