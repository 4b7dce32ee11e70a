"""Small ONNX files: quantised networks with awkward scales, made of `onnx.helper` alone."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator


class Builder:
    """Adds nodes and tensors to a graph."""

    def __init__(self, seed, shape):
        self.random = np.random.default_rng(seed)
        self.nodes, self.tensors = [], []
        self.input = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
        self.last = "x"

    def tensor(self, array, kind=None):
        name = f"t{len(self.tensors)}"
        if kind is None:
            self.tensors.append(numpy_helper.from_array(np.asarray(array), name))
        else:
            array = np.asarray(array)
            self.tensors.append(helper.make_tensor(name, kind, array.shape, array.reshape(-1)))
        return name

    def node(self, kind, *inputs, name=None, **attributes):
        made = f"v{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(
                kind, list(inputs), [made], name=name or f"{kind}_{made}", **attributes
            )
        )
        self.last = made
        return made

    def reach(self, value):
        """Return the largest magnitude of a tensor, on a few random inputs."""
        result = helper.make_tensor_value_info(value, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "g", [self.input], [result], self.tensors)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
        shape = [d.dim_value for d in self.input.type.tensor_type.shape.dim]
        run = ReferenceEvaluator(model).run
        inputs = [self.random.normal(size=shape).astype(np.float32) * 2 for _ in range(8)]
        return max(float(np.abs(run(None, {"x": x})[0]).max()) for x in inputs)

    def round(self, value, scale=None, point=0, dtype=np.int8):
        """Add a quantiser and its inverse."""
        if scale is None:
            scale = self.reach(value) / 110 * self.random.uniform(0.5, 1.5)
        self.step = np.float32(scale)
        scale = self.tensor(self.step)
        point = self.tensor(np.array(point, dtype))
        codes = self.node("QuantizeLinear", value, scale, point)
        return self.node("DequantizeLinear", codes, scale, point)

    def weight(self, shape, axis=None, point=0, dtype=np.int8):
        """Add codes with a scale, or one for each channel, over three decades."""
        info = np.iinfo(dtype)
        codes = self.random.integers(info.min + 1, info.max + 1, shape).astype(dtype)
        count = 1 if axis is None else shape[axis]
        scales = np.exp(self.random.uniform(np.log(1e-5), np.log(1e-2), count))
        points = np.full(count, point, dtype)
        scales = scales.astype(np.float32)
        if axis is None:
            scales, points = scales[0], points[0]
        names = self.tensor(codes), self.tensor(scales), self.tensor(points)
        attributes = {} if axis is None else {"axis": axis}
        return self.node("DequantizeLinear", *names, **attributes), scales

    def bias(self, count, data_scale, weight_scales):
        """Add 32-bit codes in units of the products."""
        units = np.float32(data_scale) * np.asarray(weight_scales, np.float32)
        codes = self.random.integers(-3000, 3000, count).astype(np.int32)
        points = np.zeros(units.shape, np.int32)
        names = self.tensor(codes), self.tensor(units), self.tensor(points)
        return self.node("DequantizeLinear", *names, **({"axis": 0} if units.ndim else {}))

    def save(self, path, opset=21, outputs=None, rank=2):
        """Write the file; the last node is its result."""
        results = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * rank)
            for name in outputs or [self.last]
        ]
        graph = helper.make_graph(self.nodes, "g", [self.input], results, self.tensors)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        onnx.save(model, str(path))
        return path


def residual(path, seed=0):
    """Two convolutions beside a third, their sum, a mean, and a layer: points and scales differ."""
    b = Builder(seed, [1, 3, 6, 6])
    x = b.round("x", None, int(b.random.integers(-60, 60)))
    first = b.step
    weight, scales = b.weight((4, 3, 3, 3), 0)
    left = b.node("Conv", x, weight, b.bias(4, first, scales), pads=[1] * 4, strides=[1, 1])
    left = b.round(b.node("Relu", left), None, -128)
    weight, scales = b.weight((4, 3, 1, 1), 0)
    right = b.round(b.node("Conv", x, weight, pads=[0] * 4, strides=[1, 1]), None, 9)
    both = b.round(b.node("Add", left, right), None, -5)
    pooled = b.round(b.node("AveragePool", both, kernel_shape=[3, 3], strides=[3, 3]), None, 17)
    flat = b.node("Reshape", pooled, b.tensor(np.array([0, -1], np.int64)))
    step = b.step
    weight, scales = b.weight((5, 16))
    b.round(b.node("Gemm", flat, weight, b.bias(5, step, scales), transB=1), None, 3)
    return b.save(path, 13)


def unsigned(path, seed=0):
    """Codes without a sign, weights around a zero point, a convolution of each channel alone."""
    b = Builder(seed, [1, 4, 5, 5])
    x = b.round("x", 0.013, 120, np.uint8)
    weight, scales = b.weight((4, 1, 3, 3), 0)
    bias = b.bias(4, 0.013, scales)
    y = b.node("Conv", x, weight, bias, group=4, pads=[0, 1, 1, 0], strides=[2, 2])
    y = b.round(b.node("Clip", y, b.tensor(np.float32(0)), b.tensor(np.float32(6))), 6 / 255, 0,
                np.uint8)  # fmt: skip
    y = b.node("MaxPool", y, kernel_shape=[2, 2], strides=[1, 1])
    y = b.node("Flatten", y)
    weight, scales = b.weight((4, 6), None, 7, np.uint8)
    b.round(b.node("MatMul", y, weight), None, 128, np.uint8)
    return b.save(path, 13)


def wide(path, seed=0):
    """Codes of 16 bits, and of a sign symmetric around zero."""
    b = Builder(seed, [1, 8])
    x = b.round("x", 0.00031, 0, np.int16)
    weight, scales = b.weight((6, 8), 0)
    y = b.node("Gemm", x, weight, b.bias(6, 0.00031, scales), transB=1)
    y = b.node("Relu", y)
    b.round(y)
    return b.save(path)


def gated(path, seed=0):
    """Products of streams, element by element and as matrices, sums with constants, a maximum."""
    b = Builder(seed, [1, 6, 8])

    def constant(shape):
        codes = b.random.integers(-127, 128, shape).astype(np.int8)
        scale = b.tensor(np.float32(b.random.uniform(0.003, 0.02)))
        return b.node("DequantizeLinear", b.tensor(codes), scale, b.tensor(np.int8(0)))

    x = b.round("x", None, -9)
    h = b.round(b.node("MatMul", x, constant((8, 8))), None, 5)
    h = b.round(b.node("Add", h, constant((8,))), None, -128)
    g = b.round(b.node("MatMul", h, constant((8, 8))), None, 17)
    m = b.round(b.node("Mul", h, g), None, 2)
    # Probabilities have a step that is a power of two.
    p = b.round(b.node("Clip", g, b.tensor(np.float32(0)), b.tensor(np.float32(1))), 1 / 256, 0,
                np.uint8)  # fmt: skip
    a = b.round(b.node("MatMul", m, b.node("Transpose", p, perm=[0, 2, 1])), None, -3)
    c = b.round(b.node("Mul", a, constant(())), None, 11)
    b.round(b.node("Max", a, c), None, 1)
    return b.save(path, 13, rank=3)


def varied(path, seed=0):
    """Real numbers: convolution, normalisation, movement, indices, a function, a softmax."""
    b = Builder(seed, [1, 2, 6, 6])

    def indices(*numbers):
        return b.tensor(np.array(numbers, np.int64))

    def reals(*shape):
        return b.tensor(b.random.uniform(0.5, 1.5, shape).astype(np.float32))

    y = b.node("Conv", "x", reals(4, 2, 3, 3), reals(4), pads=[1] * 4, strides=[2, 1])
    y = b.node("BatchNormalization", y, *(reals(4) for _ in range(4)), epsilon=1e-3)
    y = b.node("Clip", y, b.tensor(np.float32(-2)), b.tensor(np.float32(6)))
    y = b.node("Slice", y, indices(0), indices(5), indices(3), indices(2))
    y = b.node("Pad", y, indices(0, 0, 1, 0, 0, 0, 0, 2), b.tensor(np.float32(0.5)))
    y = b.node("Concat", y, b.node("Gather", y, indices(2, 0, 1, 3), axis=1), axis=2)
    y = b.node("Reshape", b.node("Transpose", y, perm=[0, 2, 3, 1]), indices(0, -1, 4))
    y = b.node("Add", y, b.node("Expand", reals(1, 4), indices(1, 1, 4)))
    y = b.node("LeakyRelu", b.node("MatMul", y, reals(4, 3)), alpha=0.1)
    y = b.node("Softmax", b.node("Unsqueeze", y, indices(1)), axis=-1)
    b.node("ReduceMean", b.node("Flatten", y, axis=2), axes=[1], keepdims=1)
    return b.save(path, 17, rank=3)


FILES = {"gated": gated, "residual": residual, "unsigned": unsigned, "wide": wide}
# With what nobody quantised.
ALL_FILES = {**FILES, "varied": varied}
