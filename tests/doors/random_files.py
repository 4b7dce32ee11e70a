"""Random quantised ONNX files: every operator that is known, quantisers in every place.

`Oracle` evaluates a file in double precision, by the reference evaluator of the package onnx, and
says how far every rounded number is from a tie.
"""

from __future__ import annotations

import warnings

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

OPSET = 23
QONNX = "qonnx.custom_op.general"
# Inputs of which ranges are taken.
SAMPLES = 6
MOST_ELEMENTS = 128


class UnfitError(ValueError):
    """An operator that the tensors at hand do not suit."""


class File:
    """A file in the making, with the values of every tensor on a few inputs.

    Args:
        seed: of everything.
        shape: of the input; any when None.
    """

    def __init__(self, seed, shape=None):
        self.random = np.random.default_rng(seed)
        self.nodes, self.tensors, self.kinds = [], {}, []
        # Results of codes with the scale and zero point to read them.
        self.rounded, self.values = [], {}
        rank = int(self.random.choice([2, 3, 4], p=[0.4, 0.2, 0.4]))
        self.shape = shape or [1, *(int(item) for item in self.random.integers(2, 6, rank - 1))]
        self.values["x"] = [
            self.random.normal(size=self.shape).astype(np.float32) * 2 for _ in range(SAMPLES)
        ]

    def choose(self, *items):
        return items[int(self.random.integers(len(items)))]

    def chance(self, share):
        return bool(self.random.random() < share)

    def tensor(self, array):
        name = f"t{len(self.tensors)}"
        self.tensors[name] = np.asarray(array)
        return name

    def node(self, kind, *inputs, results=1, domain="", **attributes):
        """Add a node, and compute it; return its results."""
        names = [f"v{len(self.nodes)}_{number}" for number in range(results)]
        made = helper.make_node(kind, list(inputs), names, domain=domain,
                                name=f"{kind}_{len(self.nodes)}", **attributes)  # fmt: skip
        run = _evaluator([made], {n: self.tensors[n] for n in inputs if n in self.tensors}, names)
        streams = [name for name in inputs if name and name not in self.tensors]
        # What is computed of constants alone has one value.
        given = {name: self.values[name] for name in streams}
        columns = [
            run.run(None, {name: rows[row % len(rows)] for name, rows in given.items()})
            for row in range(max(map(len, given.values()), default=1))
        ]
        found = [list(column) for column in zip(*columns, strict=True)]
        for column in found:
            sizes = [item.size for item in column]
            if max(sizes) > MOST_ELEMENTS or not min(sizes):
                raise UnfitError(f"{kind} gives {max(sizes)} elements")
            if any(item.dtype.kind == "f" and not np.isfinite(item).all() for item in column):
                raise UnfitError(f"{kind} has results that are no numbers")
        self.nodes.append(made)
        self.kinds.append(kind)
        for name, column in zip(names, found, strict=True):
            self.values[name] = column
        return names[0] if results == 1 else names

    def shape_of(self, name):
        return list(self.values[name][0].shape)

    def kind_of(self, name):
        return self.values[name][0].dtype.kind

    def scale(self, name, codes):
        """Return a scale that clips some values, sometimes a power of two."""
        reach = max(float(np.abs(item).max()) for item in self.values[name]) or 1.0
        step = reach / codes * self.random.uniform(0.7, 1.4)
        if self.chance(0.25):
            step = 2.0 ** np.round(np.log2(step))
        return np.float32(step)

    def quantise(self, name, scale=None, point=None):
        """Add a quantiser and its inverse; return the reals."""
        if self.kind_of(name) != "f":
            raise UnfitError("only reals are rounded")
        kind = self.choose(np.int8, np.uint8, np.int8, np.uint8, np.int16)
        info = np.iinfo(kind)
        scale = scale or self.scale(name, min(info.max, 1 << 12) if info.min else 255)
        low = min(float(item.min()) for item in self.values[name])
        middle = info.min if low >= 0 else int(self.random.integers(-20, 20)) + (not info.min) * 128
        point = self.choose(middle, middle, 0) if point is None else point
        given = self.tensor(scale), self.tensor(kind(np.clip(point, info.min, info.max)))
        codes = self.node("QuantizeLinear", name, *given)
        self.rounded.append((name, float(scale)))
        return self.node("DequantizeLinear", codes, *given), codes, given

    def constant(self, shape, axis=None, reach=1.0):
        """Return a weight, mostly of codes with a scale or one for each channel."""
        kind = self.choose("codes", "codes", "codes", "real")
        if kind == "real":
            return self.tensor((self.random.integers(-63, 64, shape) / 32).astype(np.float32))
        codes = self.random.integers(-127, 128, shape).astype(np.int8)
        each = axis is not None and self.chance(0.6)
        scales = self.random.uniform(0.4, 1.0, shape[axis] if each else ()) * reach / 127
        scales = np.float32(scales)
        names = map(self.tensor, (codes, scales, np.zeros(scales.shape, np.int8)))
        return self.node("DequantizeLinear", *names, **({"axis": axis} if each else {}))

    def model(self, outputs):
        entry = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)
        results = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(self.values[name][0].dtype),
                self.shape_of(name),
            )
            for name in outputs
        ]  # fmt: skip
        held = [numpy_helper.from_array(value, name) for name, value in self.tensors.items()]
        graph = helper.make_graph(self.nodes, "g", [entry], results, held)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _evaluator(nodes, tensors, results):
    held = [numpy_helper.from_array(np.asarray(value), name) for name, value in tensors.items()]
    inputs = dict.fromkeys(i for node in nodes for i in node.input if i and i not in tensors)
    made = {name for node in nodes for name in node.output}
    entries = [helper.make_empty_tensor_value_info(name) for name in inputs if name not in made]
    outputs = [helper.make_empty_tensor_value_info(name) for name in results]
    graph = helper.make_graph(nodes, "g", entries, outputs, held)
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
    return ReferenceEvaluator(helper.make_model(graph, opset_imports=opsets))


def _reals(f, rank=None):
    """Choose a tensor of reals, rounded ones mostly."""
    known = [n for n in f.values if f.kind_of(n) == "f" and n in f.usable]
    known = [n for n in known if rank is None or len(f.shape_of(n)) in rank]
    if not known:
        raise UnfitError("no tensor of the rank")
    return f.choose(*known[-3:])


def _unary(kind, **ranges):
    def add(f):
        given = {key: float(f.random.uniform(*ends)) for key, ends in ranges.items()}
        return f.node(kind, _reals(f), **given)

    return add


def _above(kind, low):
    """A function of numbers above a bound."""

    def add(f):
        bounds = map(f.tensor, np.float32([low + 0.25, 8]))
        return f.node(kind, f.quantise(f.node("Clip", _reals(f), *bounds))[0])

    return add


def _binary(kind, **attributes):
    def add(f):
        x = _reals(f)
        shape = f.shape_of(x)
        same = [n for n in f.usable if f.kind_of(n) == "f" and f.shape_of(n) == shape]
        other = (
            f.choose(*same) if f.chance(0.6) else f.constant(f.choose(shape[1:], [], shape[-1:]))
        )
        pair = (x, other) if f.chance(0.6) else (other, x)
        return f.node(kind, *pair, **attributes)

    return add


def _compared(kind):
    def add(f):
        truth = _binary(kind)(f)
        if f.chance(0.3):
            truth = f.node("Not", truth)
        if f.chance(0.3):
            truth = f.node(f.choose("And", "Or", "Xor"), truth, _binary(kind)(f))
        if f.chance(0.3):
            return f.node("Cast", truth, to=TensorProto.FLOAT)
        shape = f.shape_of(truth)
        same = [n for n in f.usable if f.kind_of(n) == "f" and f.shape_of(n) == shape]
        if not same:
            raise UnfitError("nothing to choose from")
        return f.node("Where", truth, f.choose(*same), f.choose(*same))

    return add


def _reduction(kind, axes_operand=True, results=1, **given):
    def add(f):
        x = _reals(f, (2, 3, 4))
        axis = int(f.random.integers(1, len(f.shape_of(x))))
        if axes_operand:
            return f.node(kind, x, f.tensor(np.array([axis])), keepdims=f.choose(0, 1), **given)
        return f.node(kind, x, axis=axis, **given)

    return add


def _whole(kind):
    def add(f):
        x = _reals(f, (2, 3, 4))
        axis = int(f.random.integers(1, len(f.shape_of(x))))
        return f.node("Cast", f.node(kind, x, axis=axis, keepdims=1), to=TensorProto.FLOAT)

    return add


def _image(kind, **attributes):
    def add(f):
        x = _reals(f, (4,))
        if min(f.shape_of(x)[2:]) < 2:
            raise UnfitError("small")
        return f.node(kind, x, **attributes)

    return add


def _transpose(f):
    x = _reals(f)
    rank = len(f.shape_of(x))
    return f.node("Transpose", x, perm=[0, *(1 + f.random.permutation(rank - 1)).tolist()])


def _reshape(f):
    x = _reals(f)
    size = f.shape_of(x)
    target = f.choose([1, -1], [1, *size[:0:-1]], [1, size[1], -1])
    return f.node("Reshape", x, f.tensor(np.array(target)))


def _slice(f):
    x = _reals(f)
    axis = int(f.random.integers(1, len(f.shape_of(x))))
    ends = [np.array([item]) for item in (0, max(1, f.shape_of(x)[axis] - 1), axis)]
    return f.node("Slice", x, *map(f.tensor, ends))


def _gather(f):
    x = _reals(f)
    axis = int(f.random.integers(1, len(f.shape_of(x))))
    index = f.random.integers(0, f.shape_of(x)[axis], f.choose([2], []))
    return f.node("Gather", x, f.tensor(np.array(index)), axis=axis)


def _elements(f):
    x = _reals(f, (2, 3))
    index = f.random.integers(0, f.shape_of(x)[-1], f.shape_of(x))
    return f.node("GatherElements", x, f.tensor(index), axis=len(f.shape_of(x)) - 1)


def _concat(f):
    x = _reals(f)
    shape = f.shape_of(x)
    axis = int(f.random.integers(1, len(shape)))
    like = [
        n
        for n in f.usable
        if f.kind_of(n) == "f"
        and [*f.shape_of(n)[:axis], *f.shape_of(n)[axis + 1 :]]
        == [*shape[:axis], *shape[axis + 1 :]]
    ]
    return f.node("Concat", x, f.choose(*like), axis=axis)


def _split(f):
    x = _reals(f)
    axes = [d for d, size in enumerate(f.shape_of(x)) if d and size % 2 == 0]
    if not axes:
        raise UnfitError("odd")
    return f.choose(*f.node("Split", x, results=2, axis=axes[0], num_outputs=2))


def _tile(f):
    x = _reals(f, (2, 3))
    counts = [1] * len(f.shape_of(x))
    counts[-1] = 2
    return f.node("Tile", x, f.tensor(np.array(counts)))


def _expand(f):
    x = f.node("Unsqueeze", _reals(f, (2, 3)), f.tensor(np.array([2])))
    shape = f.shape_of(x)
    return f.node("Expand", x, f.tensor(np.array([*shape[:2], 2, *shape[3:]])))


def _squeeze(f):
    x = f.node("Unsqueeze", _reals(f, (2, 3)), f.tensor(np.array([1])))
    return f.node("Squeeze", x, f.tensor(np.array([1]))) if f.chance(0.5) else x


def _pad(f):
    x = _reals(f)
    rank = len(f.shape_of(x))
    pads = [0] * (2 * rank)
    pads[-1] = pads[rank - 1] = 1
    value = f.tensor(np.float32(f.choose(0.0, 0.0, 0.5)))
    mode = f.choose("constant", "constant", "reflect", "edge")
    extra = [value] if mode == "constant" else []
    return f.node("Pad", x, f.tensor(np.array(pads)), *extra, mode=mode)


def _clip(f):
    low, high = sorted(f.random.normal(size=2).astype(np.float32) * 2)
    return f.node("Clip", _reals(f), *map(f.tensor, (low, high)))


def _prelu(f):
    x = _reals(f)
    return f.node("PRelu", x, f.constant([f.shape_of(x)[1], *[1] * (len(f.shape_of(x)) - 2)]))


def _resize(f):
    x = _reals(f, (4,))
    scales = f.tensor(np.array([1, 1, f.choose(2, 2, 0.5, 1.5), f.choose(1, 2)], np.float32))
    mode = f.choose("nearest", "linear", "linear", "cubic")
    given = {}
    if mode == "nearest":
        given["nearest_mode"] = f.choose("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
    where = f.choose("asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel")
    return f.node("Resize", x, "", scales, mode=mode, coordinate_transformation_mode=where, **given)


def _recurrent(kind, gates):
    def add(f):
        x = _reals(f, (3,))
        size, inputs = 2, f.shape_of(x)[2]
        weight = f.constant([1, gates * size, inputs], 1, 0.7)
        again = f.constant([1, gates * size, size], 1, 0.7)
        bias = [f.constant([1, 2 * gates * size])] if f.chance(0.5) else []
        turned = f.node("Transpose", x, perm=[1, 0, 2])
        more = {"linear_before_reset": f.choose(0, 1)} if kind == "GRU" else {}
        made = f.node(kind, turned, weight, again, *bias, results=1, hidden_size=size, **more)
        return f.node("Transpose", made, perm=[2, 0, 1, 3])

    return add


def _attention(f):
    x = _reals(f, (4,))
    like = [n for n in f.usable if f.kind_of(n) == "f" and f.shape_of(n) == f.shape_of(x)]
    keys, values = f.choose(*like), f.choose(*like)
    return f.node("Attention", x, keys, values, is_causal=f.choose(0, 1))


def _rotary(f):
    x = _reals(f, (4,))
    _, _, count, size = f.shape_of(x)
    if size % 2:
        raise UnfitError("odd")
    angles = f.random.uniform(0, 3, (1, count, size // 2))
    tables = [f.tensor(function(angles).astype(np.float32)) for function in (np.cos, np.sin)]
    return f.node("RotaryEmbedding", x, *tables, interleaved=f.choose(0, 1))


def _grid_sample(f):
    x = _reals(f, (4,))
    grid = f.tensor((f.random.integers(-9, 10, (1, 2, 3, 2)) / 8).astype(np.float32))
    mode, padding = f.choose("linear", "nearest"), f.choose("zeros", "border")
    return f.node("GridSample", x, grid, mode=mode, padding_mode=padding)


def _updates(f, shape):
    like = [n for n in f.usable if f.kind_of(n) == "f" and f.shape_of(n) == shape]
    return f.choose(*like) if like and f.chance(0.6) else f.constant(shape)


def _scatter_nd(f):
    x = _reals(f, (2, 3, 4))
    shape = f.shape_of(x)
    index = f.tensor(np.array([[0, f.random.integers(shape[1])]]))
    how = f.choose("none", "none", "add", "mul", "max")
    return f.node("ScatterND", x, index, _updates(f, [1, *shape[2:]]), reduction=how)


def _scatter_elements(f):
    x = _reals(f, (2, 3))
    index = np.argsort(f.random.random(f.shape_of(x)), -1)
    how, updates = f.choose("none", "none", "add", "max"), _updates(f, f.shape_of(x))
    return f.node("ScatterElements", x, f.tensor(index), updates, axis=-1, reduction=how)


def _gather_nd(f):
    x = _reals(f, (2, 3, 4))
    index = f.random.integers(0, f.shape_of(x)[1], (1, 2, 1))
    return f.node("GatherND", x, f.tensor(index), batch_dims=1)


def _compress(f):
    x = _reals(f, (2, 3, 4))
    axis = int(f.random.integers(1, len(f.shape_of(x))))
    kept = f.random.random(f.shape_of(x)[axis]) < 0.6
    return f.node("Compress", x, f.tensor(kept), axis=axis)


def _determinant(f):
    x = _reals(f, (3, 4))
    size = f.shape_of(x)
    least = min(size[-2:])
    ends = [np.array([0, 0]), np.array([least] * 2), np.array([len(size) - 2, len(size) - 1])]
    return f.node("Det", f.node("Slice", x, *map(f.tensor, ends)))


def _col2im(f):
    x = _reals(f, (3,))
    shapes = [1, f.shape_of(x)[2] + 1], [1, 2]
    return f.node("Col2Im", x, *(f.tensor(np.array(item)) for item in shapes))


def _crop(f):
    x = _reals(f, (2, 3, 4))
    axis = len(f.shape_of(x)) - 1
    size = f.shape_of(x)[axis] + f.choose(-1, 1, 2)
    return f.node("CenterCropPad", x, f.tensor(np.array([size])), axes=[axis])


def _reverse(f):
    x = _reals(f, (3, 4))
    lengths = f.tensor(np.array([f.random.integers(1, f.shape_of(x)[1] + 1)]))
    return f.node("ReverseSequence", x, lengths, batch_axis=0, time_axis=1)


def _one_hot(f):
    x = _reals(f, (2, 3))
    count = f.shape_of(x)[-1]
    place = f.node("ArgMax", x, axis=-1, keepdims=0)
    given = f.tensor(np.array(count)), f.tensor(np.float32([0, 1]))
    return f.node("OneHot", place, *given, axis=-1)


def _conv(kind):
    def add(f):
        x = _reals(f, (3, 4))
        shape = f.shape_of(x)
        count, size = int(f.random.integers(1, 4)), [min(2, item) for item in shape[2:]]
        turned = kind == "ConvTranspose"
        weight = [shape[1], count, *size] if turned else [count, shape[1], *size]
        inputs = [x, f.constant(weight, int(turned))]
        if f.chance(0.5):
            inputs.append(f.tensor((f.random.integers(-63, 64, count) / 32).astype(np.float32)))
        pads = [] if turned else [f.choose(0, 1)] * (2 * len(size))
        strides = [f.choose(1, 2)] * len(size)
        given = {"pads": pads} if pads else {}
        return f.node(kind, *inputs, kernel_shape=size, strides=strides, **given)

    return add


def _gemm(f):
    x = _reals(f, (2,))
    count = int(f.random.integers(1, 5))
    inputs = [x, f.constant([count, f.shape_of(x)[1]], 0)]
    if f.chance(0.5):
        inputs.append(f.tensor((f.random.integers(-63, 64, count) / 32).astype(np.float32)))
    return f.node("Gemm", *inputs, transB=1)


def _matmul(f):
    x = _reals(f, (2, 3, 4))
    size = f.shape_of(x)
    if f.chance(0.5) and len(size) > 2:
        perm = [*range(len(size) - 2), len(size) - 1, len(size) - 2]
        other = [n for n in f.usable if f.kind_of(n) == "f" and f.shape_of(n) == size]
        return f.node("MatMul", x, f.node("Transpose", f.choose(*other), perm=perm))
    return f.node("MatMul", x, f.constant([size[-1], int(f.random.integers(1, 4))], 1))


def _einsum(f):
    x = _reals(f, (3,))
    other = [n for n in f.usable if f.kind_of(n) == "f" and f.shape_of(n) == f.shape_of(x)]
    return f.node("Einsum", x, f.choose(*other), equation="bij,bkj->bik")


def _batch_norm(f):
    x = _reals(f, (3, 4))
    count = f.shape_of(x)[1]
    given = [f.random.normal(size=count).astype(np.float32) for _ in range(3)]
    variance = f.random.uniform(0.5, 2, count).astype(np.float32)
    return f.node("BatchNormalization", x, *map(f.tensor, given), f.tensor(variance))


def _norm(kind, weights, **attributes):
    def add(f):
        x = _reals(f, (3, 4) if kind != "LayerNormalization" else (2, 3))
        size = f.shape_of(x)[-1 if kind in ("LayerNormalization", "RMSNormalization") else 1]
        given = [f.random.normal(size=size).astype(np.float32) for _ in range(weights)]
        return f.node(kind, x, *map(f.tensor, given), **attributes)

    return add


def _top_k(f):
    x = _reals(f, (2, 3))
    return f.node("TopK", x, f.tensor(np.array([2])), results=2, axis=-1)[0]


def _integers(f):
    """A layer on codes, whose sums are scaled behind it."""
    _, codes, (_, point) = f.quantise(_reals(f, (2,)))
    if f.tensors[point].dtype == np.int16:
        raise UnfitError("16 bits")
    weight = f.random.integers(-127, 128, [f.shape_of(codes)[1], 3]).astype(np.int8)
    zero = f.tensor(np.int8(0))
    sums = f.node("MatMulInteger", codes, f.tensor(weight), point, zero)
    real = f.node("Cast", sums, to=TensorProto.FLOAT)
    return f.node("Mul", real, f.tensor(np.float32(f.random.uniform(0.001, 0.01))))


def _on_codes(kind):
    """A node that moves or chooses codes."""

    def add(f):
        _, codes, given = f.quantise(_reals(f, (2, 3)))
        rank = len(f.shape_of(codes))
        if kind == "Transpose":
            moved = f.node(kind, codes, perm=[0, *range(rank - 1, 0, -1)])
        elif kind == "Gather":
            moved = f.node(kind, codes, f.tensor(np.array([0, 1])), axis=rank - 1)
        elif kind == "Reshape":
            moved = f.node(kind, codes, f.tensor(np.array([1, -1])))
        else:
            kind_of = f.tensors[given[1]].dtype.type
            ends = sorted(f.random.integers(5, 100, 2).astype(kind_of))
            moved = f.node("Clip", codes, *map(f.tensor, ends))
        return f.node("DequantizeLinear", moved, *given)

    return add


def _layer_of_codes(f):
    _, codes, (scale, point) = f.quantise(_reals(f, (2,)))
    kind = f.tensors[point].dtype
    if kind == np.int16:
        raise UnfitError("16 bits")
    weight = f.random.integers(-127, 128, [f.shape_of(codes)[1], 3]).astype(kind)
    given = [f.tensor(item) for item in (weight, np.float32(0.01), kind.type(3))]
    back = f.tensor(np.float32(0.06)), f.tensor(kind.type(17))
    made = f.node("QLinearMatMul", codes, scale, point, *given, *back)
    return f.node("DequantizeLinear", made, *back)


def _shrink(f):
    bias = f.choose(0.0, 0.5)
    return f.node("Shrink", _reals(f), lambd=0.5, bias=bias)


RECIPES = {
    **{
        kind: _unary(kind)
        for kind in [
            "Abs",
            "Acos",
            "Asin",
            "Asinh",
            "Atan",
            "Atanh",
            "Ceil",
            "Cos",
            "Cosh",
            "Erf",
            "Exp",
            "Floor",
            "Gelu",
            "HardSwish",
            "Identity",
            "Mish",
            "Neg",
            "Reciprocal",
            "Relu",
            "Round",
            "Sigmoid",
            "Sign",
            "Sin",
            "Sinh",
            "Softplus",
            "Softsign",
            "Sqrt",
            "Tan",
            "Tanh",
            "Dropout",
            "Selu",
        ]
    },
    **{kind: _unary(kind, alpha=(0.05, 1.2)) for kind in ("Celu", "Elu", "LeakyRelu")},
    "Log": _above("Log", 0),
    "Acosh": _above("Acosh", 1),
    "ThresholdedRelu": _unary("ThresholdedRelu", alpha=(0.1, 1.5)),
    "HardSigmoid": _unary("HardSigmoid", alpha=(0.1, 0.3), beta=(0.4, 0.6)),
    "Shrink": _shrink,
    **{k: _binary(k) for k in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Mean", "Sum", "Pow")},
    "Mod": _binary("Mod", fmod=1),
    **{k: _compared(k) for k in ("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal")},
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Slice": _slice,
    "Gather": _gather,
    "GatherElements": _elements,
    "Concat": _concat,
    "Split": _split,
    "Tile": _tile,
    "Expand": _expand,
    "Squeeze": _squeeze,
    "Unsqueeze": _squeeze,
    "Pad": _pad,
    "Clip": _clip,
    "Flatten": lambda f: f.node("Flatten", _reals(f)),
    "Trilu": lambda f: f.node("Trilu", _reals(f, (3, 4)), upper=f.choose(0, 1)),
    "DepthToSpace": lambda f: f.node("DepthToSpace", _reals(f, (4,)), blocksize=2),
    "SpaceToDepth": lambda f: f.node("SpaceToDepth", _reals(f, (4,)), blocksize=2),
    **{
        k: _reduction(k)
        for k in [
            "ReduceL1",
            "ReduceL2",
            "ReduceLogSum",
            "ReduceLogSumExp",
            "ReduceMax",
            "ReduceMean",
            "ReduceMin",
            "ReduceProd",
            "ReduceSum",
            "ReduceSumSquare",
        ]
    },
    "CumSum": lambda f: f.node("CumSum", _reals(f, (2, 3)), f.tensor(np.array(1))),
    "Softmax": _reduction("Softmax", False),
    "LogSoftmax": _reduction("LogSoftmax", False),
    "LpNormalization": _reduction("LpNormalization", False),
    "Hardmax": _reduction("Hardmax", False),
    "LpPool": _image("LpPool", kernel_shape=[2, 2]),
    "ArgMax": _whole("ArgMax"),
    "ArgMin": _whole("ArgMin"),
    "TopK": _top_k,
    "PRelu": _prelu,
    "Resize": _resize,
    "RNN": _recurrent("RNN", 1),
    "GRU": _recurrent("GRU", 3),
    "LSTM": _recurrent("LSTM", 4),
    "Attention": _attention,
    "RotaryEmbedding": _rotary,
    "GridSample": _grid_sample,
    "ScatterND": _scatter_nd,
    "ScatterElements": _scatter_elements,
    "GatherND": _gather_nd,
    "Compress": _compress,
    "Det": _determinant,
    "Col2Im": _col2im,
    "CenterCropPad": _crop,
    "ReverseSequence": _reverse,
    "OneHot": _one_hot,
    "GroupNormalization": _norm("GroupNormalization", 2, num_groups=1),
    "AveragePool": _image("AveragePool", kernel_shape=[2, 2]),
    "MaxPool": _image("MaxPool", kernel_shape=[2, 2]),
    "GlobalAveragePool": _image("GlobalAveragePool"),
    "GlobalMaxPool": _image("GlobalMaxPool"),
    "LRN": _image("LRN", size=3),
    "Conv": _conv("Conv"),
    "ConvTranspose": _conv("ConvTranspose"),
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Einsum": _einsum,
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _norm("LayerNormalization", 2),
    "RMSNormalization": _norm("RMSNormalization", 1),
    "InstanceNormalization": _norm("InstanceNormalization", 2),
    "MeanVarianceNormalization": _image("MeanVarianceNormalization", axes=[2, 3]),
    "MatMulInteger": _integers,
    "QLinearMatMul": _layer_of_codes,
    "QuantizeLinear": lambda f: f.quantise(_reals(f))[0],
    **{f"{kind} of codes": _on_codes(kind) for kind in ("Transpose", "Gather", "Reshape", "Clip")},
}
# Of real numbers that an input's format holds, one table or movement gives the exact codes.
EXACT_OF_REALS = frozenset(
    [
        "Abs",
        "Acosh",
        "Asinh",
        "Atan",
        "Elu",
        "Erf",
        "Exp",
        "Gelu",
        "HardSwish",
        "Identity",
        "Mish",
        "Neg",
        "Relu",
        "Sigmoid",
        "Sin",
        "Sinh",
        "Tanh",
        "Softplus",
        "Softsign",
        "Selu",
        "LeakyRelu",
        "Transpose",
        "Reshape",
        "Flatten",
        "QuantizeLinear",
    ]
)
# Operators that have no recipe of their own, by the reason.
REASONS = {
    "in recipes of others": "And Or Xor Not Where Cast DequantizeLinear",
    "of constants alone": "BlackmanWindow HammingWindow HannWindow Constant ConstantOfShape "
    "EyeLike Range Shape Size",
    "of whole numbers or places, which nothing rounds": "BitShift BitwiseAnd BitwiseNot BitwiseOr "
    "BitwiseXor CastLike IsInf IsNaN",
    "not of the opset": "CumProd Scatter Swish TensorScatter Upsample",
    "as MatMulInteger and QLinearMatMul": "ConvInteger QLinearConv",
    "of a matrix of two rows and three columns": "AffineGrid",
}
WITHOUT = {kind for kinds in REASONS.values() for kind in kinds.split()}


def random_file(seed, kind=None):
    """Return a file and the names of its results, which are rounded; None where nothing fits.

    Args:
        seed: of everything.
        kind: a recipe that it has to hold; any by chance when None.
    """
    for attempt in range(20):
        made = _random_file((seed, attempt), kind)
        if made is not None and kind in {None, *made[0].recipes}:
            return made
    return None


def _random_file(seed, kind):
    f = File(seed)
    f.recipes = {}
    f.usable = ["x"]
    kinds = [*RECIPES]
    wanted = [f.choose(*kinds) for _ in range(int(f.random.integers(0, 3)))]
    wanted.insert(int(f.random.integers(len(wanted) + 1)), kind or f.choose(*kinds))
    # What several nodes compute of real numbers has formats of the configuration.
    if wanted[0] not in EXACT_OF_REALS or f.chance(0.7):
        f.usable = [f.quantise("x")[0]]
    results = []
    for name in wanted:
        for _ in range(8):
            before = len(f.nodes), len(f.rounded), [*f.usable]
            try:
                made = own = RECIPES[name](f)
                if f.kind_of(made) == "f" and f.chance(0.93):
                    made, _, given = f.quantise(made)
                    twice = f.choose("no", "no", "no", "no", "same", "other")
                    if twice == "same":
                        codes = f.node("QuantizeLinear", made, *given)
                        made = f.node("DequantizeLinear", codes, *given)
                    elif twice == "other":
                        made = f.quantise(made)[0]
                if f.chance(0.1) and f.nodes[-1].op_type == "DequantizeLinear":
                    results.append(made)
                f.usable = [*f.usable[-3:], made]
                f.recipes[name] = own
                break
            except (ValueError, IndexError, TypeError, RuntimeError, AssertionError):
                # The evaluator of onnx refuses what does not fit by any of them.
                del f.nodes[before[0] :], f.kinds[before[0] :], f.rounded[before[1] :]
                f.usable = before[2]
                results = [item for item in results if any(item in n.output for n in f.nodes)]
    last = f.usable[-1]
    made = {name for node in f.nodes for name in node.output}
    if last not in made:
        return None
    if f.nodes[-1].op_type != "DequantizeLinear" or last not in f.nodes[-1].output:
        try:
            last = f.quantise(last)[0]
        except UnfitError:
            return None
    outputs = [*dict.fromkeys([*results, last])]
    f.reached = _reached(f.nodes, outputs)
    f.recipes = {name for name, own in f.recipes.items() if own in f.reached}
    f.nodes = [node for node in f.nodes if node.output[0] in f.reached]
    used = {name for node in f.nodes for name in node.input}
    f.tensors = {name: item for name, item in f.tensors.items() if name in used}
    f.rounded = [item for item in f.rounded if item[0] in f.reached | {"x"}]
    return (f, outputs) if "x" in used and _starts_exactly(f.nodes, outputs) else None


def as_qonnx(model, random):
    """Return a file whose pairs of a quantiser and its inverse are `Quant` of 3 to 8 bits.

    Returns:
        The file; None where codes are read otherwise.
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    held = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    rounded = {n.output[0]: n for n in model.graph.node if n.op_type == "QuantizeLinear"}
    nodes, tensors = [], {}
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear":
            continue
        if node.op_type != "DequantizeLinear":
            if any(name in rounded for name in node.input):
                return None
            nodes.append(node)
            continue
        codes, scale, point = node.input
        if codes not in rounded and codes not in held:
            return None
        bits, kind = int(random.integers(3, 9)), held[point].dtype
        whole = min(8 * kind.itemsize, 12)
        rank = held[codes].ndim if codes in held else 0
        shape = [-1 if d == 0 else 1 for d in range(rank)] if held[scale].size > 1 else []
        if held[scale].size > 1 and node.attribute[0].i != 0:
            return None
        steps = held[scale].reshape(shape) * np.float32(
            2 ** (whole - bits) * random.uniform(0.8, 1.2)
        )
        source, zero = codes, np.float32(0)
        if codes in rounded:
            source = rounded[codes].input[0]
            # QONNX adds zero points before ties are rounded to even numbers.
            least, most = (
                (-(2 ** (bits - 1)), 2 ** (bits - 1) - 2) if kind != np.uint8 else (0, 2**bits - 2)
            )
            zero = np.float32(np.clip(int(held[point]) // 2 ** (whole + 1 - bits) * 2, least, most))
        else:
            tensors[codes + "r"] = held[codes].astype(np.float32) * held[scale].reshape(shape)
            source = codes + "r"
        unsigned = codes in rounded and kind == np.uint8
        name = node.output[0]
        tensors |= {name + "s": steps, name + "z": zero, name + "b": np.float32(bits)}
        settings = {"signed": int(not unsigned), "narrow": 0, "rounding_mode": "ROUND"}
        names = [source, name + "s", name + "z", name + "b"]
        nodes.append(helper.make_node("Quant", names, [name], domain=QONNX, name=name, **settings))
    read = {name for node in nodes for name in node.input}
    tensors |= {name: item for name, item in held.items() if name in read}
    del made.graph.node[:], made.graph.initializer[:]
    made.graph.node.extend(nodes)
    made.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(item), name) for name, item in tensors.items()
    )
    made.opset_import.append(helper.make_opsetid(QONNX, 1))
    return made


def _starts_exactly(nodes, outputs):
    """True where what is computed before the first rounding is one exact function."""
    reals = set()
    for node in nodes:
        if node.op_type != "QuantizeLinear":
            if reals.intersection(node.input):
                return False
            if "x" in node.input:
                reals.update(node.output)
                if node.op_type not in EXACT_OF_REALS:
                    return False
    return not reals.intersection(outputs)


def _reached(nodes, outputs):
    """Return what results are computed of."""
    found = set(outputs)
    for node in reversed(nodes):
        if found.intersection(node.output):
            found |= {*node.input, *node.output}
    return found


class Oracle:
    """Double precision: results, and how far numbers are from a tie before they are rounded."""

    def __init__(self, f, outputs):
        tensors = {
            name: item.astype(np.float64) if item.dtype == np.float32 else item
            for name, item in f.tensors.items()
        }
        nodes = []
        for node in f.nodes:
            own = onnx.NodeProto()
            own.CopyFrom(node)
            for item in own.attribute:
                if own.op_type == "Cast" and item.name == "to":
                    item.i = TensorProto.DOUBLE
            nodes.append(own)
        self.steps = [(name, scale) for name, scale in f.rounded if name in f.values]
        self.outputs = outputs
        names = [*outputs, *(name for name, _ in self.steps if name != "x")]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.run = _evaluator(nodes, tensors, names).run
        self.names = names

    def __call__(self, row):
        """Return the results of one input, and the least distance from a tie, in steps."""
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = self.run(None, {"x": row.astype(np.float64)})
        known = {"x": row, **dict(zip(self.names, found, strict=True))}
        least, finite = 1.0, True
        for name, scale in self.steps:
            steps = np.asarray(known[name], np.float64) / scale
            finite &= bool(np.isfinite(steps).all())
            apart = np.abs(np.abs(steps - np.floor(steps)) - 0.5)
            # Ties of what is computed exactly are decided by the even code.
            least = min(least, float(np.where(apart > 0, apart, 1.0).min()))
        return found[: len(self.outputs)], least, finite
