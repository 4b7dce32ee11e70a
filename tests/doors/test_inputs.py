"""Inputs of a simulation as integer codes."""

import numpy as np
import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.errors import SimulationError
from tests.doors.files import wide


def test_codes_are_taken_as_they_are(tmp_path):
    path = wide(tmp_path / "m.onnx", 5)
    project = mase_hw.emit_verilog(mase_hw.trace(path), output=tmp_path / "d", parallelism=2)
    codes = np.random.default_rng(0).integers(-9000, 9000, (30, 8))
    np.savez(tmp_path / "x.npz", x_codes=codes)
    np.savez(tmp_path / "reals.npz", x=(codes * np.float64(np.float32(0.00031))).astype(np.float32))
    outputs = []
    for name in ("x", "reals"):
        report = mase_hw.simulate(
            project, str(tmp_path / f"{name}.npz"), outputs=str(tmp_path / f"{name}_out.npz")
        )
        assert report.bit_exact
        outputs.append(dict(np.load(tmp_path / f"{name}_out.npz")))
    for key, value in outputs[0].items():
        np.testing.assert_array_equal(value, outputs[1][key])
    np.savez(tmp_path / "far.npz", x_codes=codes * 10)
    with pytest.raises(SimulationError, match="no codes"):
        mase_hw.simulate(project, str(tmp_path / "far.npz"))


def test_reals_are_taken_as_before(tmp_path):
    project = mase_hw.emit_verilog(
        nn.Linear(3, 2), torch.randn(5, 3), output=tmp_path / "d", parallelism=1
    )
    assert mase_hw.simulate(project, {"data_in_0": torch.randn(4, 3)}).bit_exact
