"""Layers on integers that the quantiser of ONNX Runtime makes, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import quantization

import mase_hw
from mase_hw.emit.flow import quantize
from mase_hw.errors import CaptureError
from mase_hw.graph.reference import spec


def network(path):
    """Write a float network: convolutions, a sum, a concatenation, means, a layer."""
    random = np.random.default_rng(0)
    shapes = {"a": (4, 3, 3, 3), "b": (4, 4, 3, 3), "c": (5, 8), "d": (4,)}
    tensors = [
        numpy_helper.from_array(random.normal(size=shape).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("Conv", ["x", "a", "d"], ["y0"], name="first", pads=[1] * 4),
        helper.make_node("Relu", ["y0"], ["y1"], name="bound"),
        helper.make_node("Conv", ["y1", "b"], ["y2"], name="second", pads=[1] * 4),
        helper.make_node("Add", ["y1", "y2"], ["y3"], name="sum"),
        helper.make_node("Concat", ["y3", "y1"], ["y4"], name="joined", axis=1),
        helper.make_node("GlobalAveragePool", ["y4"], ["y5"], name="means"),
        helper.make_node("Flatten", ["y5"], ["y6"], name="row"),
        helper.make_node("Gemm", ["y6", "c"], ["y"], name="last", transB=1),
    ]
    entry = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 6, 6])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 5])
    graph = helper.make_graph(nodes, "g", [entry], [result], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(path))
    return path


class Samples(quantization.CalibrationDataReader):
    def __init__(self):
        random = np.random.default_rng(1)
        self.rows = iter(random.normal(size=(20, 1, 3, 6, 6)).astype(np.float32))

    def get_next(self):
        row = next(self.rows, None)
        return None if row is None else {"x": row}


@pytest.mark.parametrize("spelling", ["QOperator", "QDQ"])
def test_reals_are_those_of_onnx_runtime(spelling, tmp_path):
    path = tmp_path / "q.onnx"
    quantization.quantize_static(
        str(network(tmp_path / "f.onnx")), str(path), Samples(),
        quant_format=quantization.QuantFormat[spelling], per_channel=spelling == "QDQ",
    )  # fmt: skip
    kinds = {node.op_type for node in onnx.load(str(path)).graph.node}
    assert (spelling == "QDQ") != ("QLinearAdd" in kinds)
    x = torch.randn(300, 3, 6, 6, generator=torch.Generator().manual_seed(2))
    graph = quantize(mase_hw.trace(path, x[:2]))
    session = onnxruntime.InferenceSession(str(path))
    expected = session.run(None, {"x": x.numpy()})[0]
    number = spec(graph.outputs[0]).quantized
    off = (number.encode(graph(x).detach()) - number.encode(torch.from_numpy(expected))).abs()
    assert int(off.max()) <= 1
    assert float((off > 0).double().mean()) <= 2e-3


def test_scales_that_are_found_at_run_time_are_refused(tmp_path):
    path = tmp_path / "q.onnx"
    quantization.quantize_dynamic(str(network(tmp_path / "f.onnx")), str(path))
    with pytest.raises(CaptureError, match=r"scale as it runs|sums of integers"):
        mase_hw.trace(path, torch.randn(2, 3, 6, 6))
