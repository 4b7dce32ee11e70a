"""Sums of integers that a file scales afterwards, against the evaluator of the package onnx."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from onnx import helper
from onnx.reference import ReferenceEvaluator

import mase_hw
from mase_hw.emit.flow import lowered, quantize
from mase_hw.errors import CaptureError
from mase_hw.graph.reference import IntegerReference, spec
from tests.doors.files import Builder

SHAPES = {"ConvInteger": ([1, 3, 6, 6], (4, 3, 3, 3), 0), "MatMulInteger": ([1, 12], (12, 5), 1)}


class Sums(Builder):
    """A layer on codes, whose sums are cast, and what scales them."""

    def __init__(self, seed, kind, scale=0.03, point=-7, weight_point=0):
        shape, weights, axis = SHAPES[kind]
        super().__init__(seed, shape)
        self.scale, self.count = np.float32(scale), weights[axis]
        self.across = (self.count, 1, 1) if axis == 0 else (self.count,)
        self.point = self.tensor(np.array(point, np.uint8 if point > 0 else np.int8))
        given = [self.node("QuantizeLinear", "x", self.tensor(self.scale), self.point)]
        dtype = np.uint8 if weight_point else np.int8
        low = np.iinfo(dtype).min
        self.codes = self.random.integers(low + 1, low + 255, weights).astype(dtype)
        given += [self.tensor(self.codes), self.point]
        if weight_point:
            given.append(self.tensor(np.array(weight_point, dtype)))
        self.sums = self.node(kind, *given, **({"pads": [1] * 4} if axis == 0 else {}))

    def factors(self, each=True):
        shape = self.across if each else ()
        scales = np.exp(self.random.uniform(np.log(1e-5), np.log(1e-2), shape))
        return (self.scale * scales).astype(np.float32)

    def integers(self):
        return self.random.integers(-3000, 3000, self.across).astype(np.int32)

    def reals(self):
        return self.random.normal(size=self.across).astype(np.float32)

    def compared(self, folder, *, rtl=True):
        dims = self.input.type.tensor_type.shape.dim
        path = self.save(folder / "m.onnx", rank=len(dims))
        graph = quantize(mase_hw.trace(path))
        low = lowered(graph)
        x = torch.randn(60, *[dim.dim_value for dim in dims][1:]) * 2
        run = ReferenceEvaluator(onnx.load(str(path))).run
        wanted = np.concatenate([run(None, {"x": row[None].numpy()})[0] for row in x])
        reference = IntegerReference(low)
        (entry,), (output,) = reference.inputs, reference.outputs
        found = reference([spec(entry).quantized.encode(x)])[output.name]
        codes = spec(output).quantized.encode(torch.from_numpy(wanted)).reshape(found.shape)
        assert len(codes.unique()) > 8
        if rtl:
            project = mase_hw.emit_verilog(graph, output=folder / "d", parallelism=1)
            assert mase_hw.simulate(project, x[:12], stall=0.2).bit_exact
        return int((found != codes).sum())


@pytest.mark.parametrize("kind", SHAPES)
def test_scaled_sums_are_one_layer(kind, tmp_path):
    b = Sums(0, kind)
    y = b.node("Cast", b.sums, to=onnx.TensorProto.FLOAT)
    y = b.node("Add", b.node("Mul", y, b.tensor(b.factors())), b.tensor(b.reals()))
    b.round(b.node("Relu", y), None, -128)
    assert b.compared(tmp_path) == 0


@pytest.mark.full
@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_whatever_scales_the_sums(kind, seed, tmp_path):
    b = Sums(seed, kind, 0.0125, 120, 131)
    y = b.node("Add", b.sums, b.tensor(b.integers()))
    y = b.node("Cast", y, to=onnx.TensorProto.FLOAT)
    for factor in (np.float32(0.7), b.factors(each=False)):
        y = b.node("Mul", b.tensor(factor), y)
    b.round(y, None, 3)
    assert b.compared(tmp_path) == 0


def test_scales_that_are_powers_of_two_take_no_steps(tmp_path):
    b = Sums(1, "MatMulInteger", 2.0**-5, 0)
    y = b.node("DequantizeLinear", b.sums, b.tensor(np.float32(2.0**-5 * 0.004)))
    b.round(b.node("Add", y, b.tensor(b.reals())), None, 3)
    assert b.compared(tmp_path, rtl=False) == 0
    low = lowered(quantize(mase_hw.trace(tmp_path / "m.onnx")))
    assert [node.op for node in low.nodes].count("call_function") == 1


def test_a_bare_product_of_microsoft(tmp_path):
    b = Sums(2, "MatMulInteger")
    node = b.nodes.pop()
    codes, weight, point = node.input
    zero = b.tensor(np.zeros((), np.int8))
    scales = [b.tensor(b.scale), b.tensor(np.float32([0.01, 0.002, 0.3, 0.04, 0.1]))]
    given = [codes, weight, *scales, point, zero, b.tensor(b.reals())]
    y = b.node("MatMulIntegerToFloat", *given, domain="com.microsoft")
    b.round(y, 0.05, 3)
    path = b.save(tmp_path / "m.onnx")
    graph = mase_hw.trace(path)
    x = torch.randn(40, 12) * 2
    steps = np.clip(np.rint(x.double().numpy() / np.float64(b.scale)) - 7, -128, 127) + 7
    reals = np.float64(b.scale) * np.float64([np.float32(v) for v in (0.01, 0.002, 0.3, 0.04, 0.1)])
    bias = onnx.numpy_helper.to_array(b.tensors[-3]).astype(np.float64)
    wanted = np.clip(np.rint((steps @ b.codes * reals + bias) / np.float64(np.float32(0.05))),
                     -131, 124)  # fmt: skip
    low = lowered(quantize(graph))
    reference = IntegerReference(low)
    found = reference([spec(reference.inputs[0]).quantized.encode(x)])[reference.outputs[0].name]
    np.testing.assert_array_equal(found.numpy().reshape(wanted.shape) - 3, wanted)


def test_what_no_layer_is_refused_by_name(tmp_path):
    def refused(message, change, **options):
        b = Sums(3, "MatMulInteger", **options)
        change(b)
        with pytest.raises(CaptureError, match=message):
            mase_hw.trace(b.save(tmp_path / "m.onnx"))

    def other_point(b):
        b.nodes[-1].input[2] = b.tensor(np.array(5, np.int8))

    def streaming(b):
        b.nodes[-1].input[1] = b.nodes[0].output[0]

    def dynamic(b):
        b.nodes[0] = helper.make_node("DynamicQuantizeLinear", ["x"], ["v0", "s", "z"], name="here")

    refused("MatMulInteger.*zero point is 5.*made with -7", other_point)
    refused("MatMulInteger.*weights are computed", streaming)
    refused("'here'.*finds a scale as it runs; export QDQ, quantised statically", dynamic)
