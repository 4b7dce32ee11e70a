"""What a file computes with a constant between two roundings has the codes of ONNX Runtime."""

from itertools import product

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import mase_hw
from mase_hw.graph.fills import rounds_itself
from mase_hw.graph.nodes import metadata

# Scales and constants without a tie; the divisor has the code of zero, and is zero in no example.
STEP, LEVEL = 0.05, 0.0713
TENSORS = {
    "step": np.float32(STEP), "zero": np.int8(3), "level": np.float32(LEVEL), "point": np.int8(-5),
    "grain": np.float32(0.0137), "none": np.int8(0),
    "weight": np.int8([[17, -9, 4, 30], [5, 22, -31, 8], [-12, 6, 19, 3], [40, -7, 11, -25]]),
    "c": np.float32([0.31, -0.71, 1.13, 2.07]),
}  # fmt: skip


def written(operator, operands, path):
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "step", "zero"], ["codes"]),
        helper.make_node("DequantizeLinear", ["codes", "step", "zero"], ["data"]),
        helper.make_node("DequantizeLinear", ["weight", "grain", "none"], ["matrix"]),
        helper.make_node("MatMul", ["data", "matrix"], ["product"]),
        helper.make_node(operator, operands, ["y"]),
        helper.make_node("QuantizeLinear", ["y", "level", "point"], ["rounded"]),
        helper.make_node("DequantizeLinear", ["rounded", "level", "point"], ["out"]),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [50, 4]) for n in ("x", "out")]
    constants = [numpy_helper.from_array(np.array(item), name) for name, item in TENSORS.items()]
    graph = helper.make_graph(nodes, "constants", ends[:1], ends[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


CASES = [
    *product(("Add", "Sub", "Mul", "Div"), (["data", "c"], ["c", "data"])),
    *product(("Add", "Sub"), (["product", "c"], ["c", "product"])),
]


@pytest.mark.parametrize(("operator", "operands"), CASES)
def test_a_constant_between_roundings_has_the_codes_of_the_file(operator, operands, tmp_path):
    path = written(operator, operands, tmp_path / "m.onnx")
    x = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32) * 2
    x[abs(x) < STEP] = 1.0
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    (expected,) = onnxruntime.InferenceSession(path, options).run(None, {"x": x})
    graph = mase_hw.quantize(mase_hw.trace(path, {"x": torch.from_numpy(x)}))
    codes = graph(torch.from_numpy(x)).detach().numpy() / LEVEL
    np.testing.assert_array_equal(codes.round(), (expected / LEVEL).round())
    assert graph.outputs[0].name in rounds_itself(graph)


def test_a_node_whose_result_stays_real_does_not_round_as_the_model_does(tmp_path):
    path = written("Add", ["product", "c"], tmp_path / "m.onnx")
    model = onnx.load(path)
    del model.graph.node[4:]
    model.graph.output[0].name = "product"
    onnx.save(model, path)
    graph = mase_hw.quantize(mase_hw.trace(path))
    (layer,) = (node for node in graph.nodes if "weight" in metadata(node).declared)
    assert metadata(layer).exact
    assert rounds_itself(graph) == [node.name for node in graph.inputs]
