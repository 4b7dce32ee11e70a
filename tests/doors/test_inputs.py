"""Inputs of a simulation as integer codes."""

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from torch import nn
from typer.testing import CliRunner

import mase_hw
from mase_hw.cli import build_app
from mase_hw.emit.design import DesignSummary
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


def test_a_file_takes_examples_by_name(tmp_path):
    """The range of an input comes from the examples, in any order, as do all others."""
    nodes = [helper.make_node("Add", ["a", "b"], ["c"], "sum")]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in "ab"],
        [helper.make_tensor_value_info("c", TensorProto.FLOAT, None)],
    )
    path = tmp_path / "sum.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    a, b = np.random.default_rng(0).normal(size=(2, 40, 3)) * [[[1.0]], [[100.0]]]
    np.savez(tmp_path / "examples.npz", b=b, a=a)
    np.savez(tmp_path / "others.npz", b=b, x=a)
    np.savez(tmp_path / "words.npz", a=np.array(["one"]), b=b)
    folder, app = tmp_path / "d", build_app()

    def emit(*arguments):
        return CliRunner().invoke(app, ["emit-verilog", *map(str, arguments), "-o", str(folder)])

    def reason(name, model=path):
        refused = emit(model, "--inputs", tmp_path / name)
        assert not folder.exists()
        return str(refused.exception)

    assert "takes inputs a, b; b, x are given" in reason("others.npz")
    assert "no array of numbers" in reason("words.npz")
    assert "cannot be read" in reason("none.npz")
    assert "digits-mlp brings its own" in reason("examples.npz", "digits-mlp")
    assert emit(path, "--inputs", tmp_path / "examples.npz").exit_code == 0
    streams = DesignSummary.load(folder).inputs
    assert [stream.spec.quantized.frac_width for stream in streams] == [5, -2]
