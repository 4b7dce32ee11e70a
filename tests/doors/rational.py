"""What a QDQ file says, in exact rational numbers: no code of the package, and onnx as a parser.

A real tensor is `n * unit + offset` with whole `n`, a unit and an offset for each channel. Rounding
to codes looks up which whole numbers lie between two halves of a step; halves go to the even code.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import pairwise

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

# The most that single precision is off, of a number between one and two.
ROUNDING = 2.0**-24


@dataclass
class Real:
    """`whole * units + offsets`, channels along `axis`."""

    whole: np.ndarray
    units: list[Fraction]
    offsets: list[Fraction]
    axis: int = 1
    low: Fraction | None = None
    high: Fraction | None = None
    # What the magnitudes of all terms add up to, in units, and how many they are.
    sizes: np.ndarray | None = None
    terms: int = 1

    def moved(self, whole: np.ndarray) -> Real:
        assert len(self.units) == len(self.offsets) == 1
        return Real(whole, self.units, self.offsets)


@dataclass
class Total:
    """The sum of two reals of one unit each."""

    first: Real
    second: Real


@dataclass
class Largest:
    """The larger of two reals."""

    first: Real
    second: Real


@dataclass
class Differing:
    """Codes of a layer that are not the exact ones, though it takes the same codes.

    `distances` are those of the exact values from a tie, in steps; `bounds` what single precision
    may be off at most, in whatever order it adds.
    """

    layer: str
    elements: int
    largest: int
    distances: list[float]
    bounds: list[float]


class RationalModel:
    """Evaluates a file on batches, though its own shapes are those of one inference."""

    def __init__(self, path):
        self.model = onnx.load(str(path))
        self.constants = {
            item.name: numpy_helper.to_array(item) for item in self.model.graph.initializer
        }

    def codes(self, values, taken=None):
        """Return the codes of every QuantizeLinear by the name of its result.

        Args:
            values: float32 `[inferences, ...]` of the one input.
            taken: codes by the same names, which others take in place of the exact ones.
        """
        return {name: codes for name, codes, _, _ in self.rounded(values, taken or {})}

    def differing(self, values, taken):
        """Yield where codes of another evaluation differ, of every layer that takes its codes."""
        for name, codes, real, step in self.rounded(values, taken):
            theirs = taken[name].astype(np.int64)
            places = np.argwhere(codes != theirs)
            found = [self.distance(real, step, tuple(place)) for place in places]
            largest = int(abs(codes - theirs).max())
            yield Differing(name, codes.size, largest, [d for d, _ in found], [b for _, b in found])

    def distance(self, real, step, place):
        """Return how far an exact value is from a tie, and what single precision may be off."""
        if isinstance(real, np.ndarray):
            value, size, terms = Fraction(float(real[place])), abs(Fraction(float(real[place]))), 1
        elif isinstance(real, Largest):
            return min(self.distance(item, step, place) for item in vars(real).values())
        elif isinstance(real, Total):
            parts = [
                int(np.broadcast_to(item.whole, self.shape(real))[place]) * item.units[0]
                for item in (real.first, real.second)
            ]
            value, size, terms = sum(parts), sum(map(abs, parts)), 2
        else:
            channel = place[real.axis] if len(real.units) > 1 else 0
            unit, offset = real.units[channel], real.offsets[channel]
            value = int(real.whole[place]) * unit + offset
            sizes = abs(real.whole) if real.sizes is None else real.sizes
            size, terms = int(sizes[place]) * unit + abs(offset), real.terms
        steps = value / step
        distance = abs(steps - np.floor(float(steps)) - Fraction(1, 2))
        # Both operands and their product are rounded, so are all sums, bias, and the quotient.
        return float(distance), float(size / step * (terms + 5) * ROUNDING)

    @staticmethod
    def shape(total):
        return np.broadcast_shapes(total.first.whole.shape, total.second.whole.shape)

    def rounded(self, values, taken):
        """Yield name, codes, exact value and step of every QuantizeLinear."""
        (given,) = [i for i in self.model.graph.input if i.name not in self.constants]
        known: dict[str, object] = {given.name: values}
        for node in self.model.graph.node:
            if node.op_type == "Softmax":
                break
            attributes = {
                item.name: onnx.helper.get_attribute_value(item) for item in node.attribute
            }
            operands = [
                known.get(name, self.constants.get(name)) if name else None for name in node.input
            ]
            result = getattr(self, node.op_type)(attributes, *operands)
            (name,) = node.output
            known[name] = taken.get(name, result)
            if node.op_type == "QuantizeLinear":
                yield name, result, operands[0], Fraction(float(operands[1]))

    def QuantizeLinear(self, attributes, real, scale, point):  # noqa: N802
        assert scale.size == 1
        low, high = np.iinfo(point.dtype).min, np.iinfo(point.dtype).max
        step, zero = Fraction(float(scale)), int(point)
        steps = range(low - zero, high - zero)
        if isinstance(real, np.ndarray):
            # 2 k + 1 halves of a step are exact in double precision.
            halves = np.array([2 * k + 1 for k in steps]) * (float(scale) / 2)
            up = np.searchsorted(halves, real.astype(np.float64), side="left")
            tie = np.isin(real.astype(np.float64), halves)
            even = np.array([k % 2 == 0 for k in steps] + [True])
            return low + up + (tie & ~even[up])
        if isinstance(real, Total):
            return self.total(real, step, zero, low, high)
        if isinstance(real, Largest):
            # Rounding rises.
            both = (self.QuantizeLinear({}, item, scale, point) for item in vars(real).values())
            return np.maximum(*both)
        shape = real.whole.shape
        moved = np.moveaxis(real.whole, real.axis, 0) if len(real.units) > 1 else real.whole[None]
        parts = []
        for whole, unit, offset in zip(moved, real.units, real.offsets, strict=True):
            bounds = [last(step * (2 * k + 1) / 2, k % 2 == 0, unit, offset) for k in steps]
            bounds = np.clip(np.array(bounds, dtype=object), -(2**62), 2**62).astype(np.int64)
            parts.append(low + np.searchsorted(bounds, whole, side="left"))
        codes = np.stack(parts)
        codes = np.moveaxis(codes, 0, real.axis) if len(real.units) > 1 else codes[0]
        assert codes.shape == shape
        # Rounding rises: bounds may be rounded, too.
        least, most = (
            None if end is None else min(max(round(end / step) + zero, low), high)
            for end in (real.low, real.high)
        )
        return codes if least is most is None else np.clip(codes, least, most)

    def total(self, real, step, zero, low, high):
        a, b = np.broadcast_arrays(real.first.whole, real.second.whole)
        pairs, where = np.unique(
            np.stack([a.reshape(-1), b.reshape(-1)]), axis=1, return_inverse=True
        )
        (first,), (second,) = real.first.units, real.second.units
        codes = [
            min(max(round((int(x) * first + int(y) * second) / step) + zero, low), high)
            for x, y in pairs.T
        ]
        return np.array(codes)[where.reshape(-1)].reshape(a.shape)

    def DequantizeLinear(self, attributes, codes, scale, point):  # noqa: N802
        axis = attributes.get("axis", 1)
        units = [Fraction(float(item)) for item in scale.reshape(-1)]
        points = point.astype(np.int64).reshape([-1 if d == axis else 1 for d in range(codes.ndim)]
                                                if point.size > 1 else [])  # fmt: skip
        return Real(codes.astype(np.int64) - points, units, [Fraction(0)] * len(units), axis)

    def layer(self, sums, x, weight, bias, sizes, terms):
        count = sums.shape[1]
        (unit,) = x.units
        units = [unit * item for item in weight.units] * (1 if len(weight.units) > 1 else count)
        offsets = [Fraction(0)] * count
        if bias is not None:
            steps = bias.units * (1 if len(bias.units) > 1 else count)
            offsets = [int(n) * step for n, step in zip(bias.whole, steps, strict=True)]
        return Real(sums, units, offsets, sizes=sizes, terms=terms)

    def Conv(self, attributes, x, weight, bias=None):  # noqa: N802
        kernel, strides = weight.whole.shape[2:], attributes["strides"]
        pads, groups = attributes.get("pads", [0] * 4), attributes.get("group", 1)
        assert attributes.get("dilations", [1, 1]) == [1, 1]
        image = np.pad(x.whole, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
        windows = np.lib.stride_tricks.sliding_window_view(image, kernel, axis=(2, 3))
        windows = windows[:, :, :: strides[0], :: strides[1]]
        n, channels, height, width = windows.shape[:4]
        # Sums stay below 2**53: products of doubles are exact, and fast.
        parts = windows.reshape(n, groups, channels // groups, height, width, *kernel)
        filters = weight.whole.reshape(groups, -1, *weight.whole.shape[1:])
        sums, sizes = (
            np.einsum("ngcyxij,gocij->ngoyx", *pair, optimize=True)
            .astype(np.int64).reshape(n, -1, height, width)
            for pair in self.both(parts, filters)
        )  # fmt: skip
        return self.layer(sums, x, weight, bias, sizes, filters[0, 0].size)

    @staticmethod
    def both(*arrays):
        reals = [array.astype(np.float64) for array in arrays]
        return reals, [abs(array) for array in reals]

    def Gemm(self, attributes, x, weight, bias=None):  # noqa: N802
        assert attributes.get("alpha", 1) == attributes.get("beta", 1) == 1
        matrix = weight.whole.T if attributes.get("transB", 0) else weight.whole
        return self.product(x, replace(weight, whole=matrix), bias)

    def product(self, x, weight, bias=None):
        sums, sizes = ((a @ b).astype(np.int64) for a, b in self.both(x.whole, weight.whole))
        return self.layer(sums, x, weight, bias, sizes, len(weight.whole))

    def Add(self, attributes, first, second):  # noqa: N802
        return Total(first, second)

    def Mul(self, attributes, first, second):  # noqa: N802
        (one,), (two,) = first.units, second.units
        return Real(first.whole * second.whole, [one * two], [Fraction(0)])

    def Max(self, attributes, first, second):  # noqa: N802
        return Largest(first, second)

    def AveragePool(self, attributes, x):  # noqa: N802
        kernel, strides = attributes["kernel_shape"], attributes["strides"]
        assert not any(attributes.get("pads", []))
        windows = np.lib.stride_tricks.sliding_window_view(x.whole, kernel, axis=(2, 3))
        sums = windows[:, :, :: strides[0], :: strides[1]].sum((-2, -1))
        count = int(np.prod(kernel))
        return Real(sums, [x.units[0] / count], [Fraction(0)], terms=count)

    def Relu(self, attributes, x):  # noqa: N802
        return replace(x, low=Fraction(0))

    def Clip(self, attributes, x, low, high):  # noqa: N802
        return replace(x, low=Fraction(float(low)), high=Fraction(float(high)))

    def MaxPool(self, attributes, x):  # noqa: N802
        assert not any(attributes.get("pads", []))
        kernel, strides = attributes["kernel_shape"], attributes["strides"]
        windows = np.lib.stride_tricks.sliding_window_view(x.whole, kernel, axis=(2, 3))
        return x.moved(windows[:, :, :: strides[0], :: strides[1]].max((-2, -1)))

    def Flatten(self, attributes, x):  # noqa: N802
        return x.moved(x.whole.reshape(len(x.whole), -1))

    def MatMul(self, attributes, x, weight):  # noqa: N802
        return self.product(x, weight)

    def Transpose(self, attributes, x):  # noqa: N802
        moved = (x if isinstance(x, np.ndarray) else x.whole).transpose(attributes["perm"])
        return moved if isinstance(x, np.ndarray) else x.moved(moved)

    def Reshape(self, attributes, x, shape):  # noqa: N802
        array = x if isinstance(x, np.ndarray) else x.whole
        moved = array.reshape(len(array), *[int(size) for size in shape[1:]])
        return moved if isinstance(x, np.ndarray) else x.moved(moved)


def last(border: Fraction, inside: bool, unit: Fraction, offset: Fraction) -> int:
    place = (border - offset) / unit
    found = place.numerator // place.denominator
    return found - (not inside and place == found)


def is_sorted(values) -> bool:
    return all(a <= b for a, b in pairwise(values))


class Rationals:
    """A file in rational numbers: the package onnx computes with arrays of fractions.

    Args:
        model: a file whose operators are sums, products, comparisons and movement.

    Raises:
        NotRationalError: on a call, where a result is no rational number, or where a function of
            the package onnx does not take fractions.
    """

    def __init__(self, model):
        settings = {
            name for node in model.graph.node if node.op_type in SETTINGS for name in node.input[1:]
        }
        self.constants = {
            item.name: array if item.name in settings else fractions(array)
            for item in model.graph.initializer
            for array in [numpy_helper.to_array(item)]
        }
        self.nodes = []
        for node in model.graph.node:
            attributes = {item.name: helper.get_attribute_value(item) for item in node.attribute}
            if node.op_type in _FUNCTIONS:
                compute = partial(_FUNCTIONS[node.op_type], attributes)
            else:
                compute = _evaluated(model, node)
                for kinds, way in ((LINEAR, _linear), (ORDERED, _largest)):
                    compute = partial(way, compute) if node.op_type in kinds else compute
            self.nodes.append((node, compute))
        self.outputs = [item.name for item in model.graph.output]

    def __call__(self, x):
        """Return the results for a float32 array, as arrays of float64 made of exact codes."""
        known = {**self.constants, "x": fractions(x), "": None}
        for node, compute in self.nodes:
            try:
                results = compute(*(known[name] for name in node.input))
            except (TypeError, AttributeError, ValueError, RuntimeError, ArithmeticError) as error:
                raise NotRationalError(f"{node.op_type}: {error}") from error
            for name, result in zip(node.output, results, strict=False):
                if result.dtype.kind == "f" or not all(map(_is_rational, result.flat)):
                    raise NotRationalError(node.op_type)
                known[name] = result
        return [known[name].astype(np.float64) for name in self.outputs]


class NotRationalError(ValueError):
    """What is computed is no rational number."""


# Operators whose further operands are settings, not numbers to compute with.
SETTINGS = frozenset(["Resize", "GridSample"])
# Operators that weigh elements by quotients of small whole numbers.
LINEAR = SETTINGS | {"AveragePool"}
MOST_PARTS = 1 << 10
ORDERED = frozenset(["MaxPool"])


def fractions(array):
    """Return an array of fractions for one of floats, others as they are."""
    if array.dtype.kind != "f":
        return array
    exact = np.empty(array.shape, object)
    exact[...] = np.vectorize(Fraction, otypes=[object])(array.astype(np.float64))
    return exact


def _is_rational(item):
    return isinstance(item, (Fraction, int, np.integer, np.bool_))


def _channels(array, axis, rank):
    return array.reshape([-1 if d == axis % rank else 1 for d in range(rank)] if array.size > 1
                         else [1] * rank)  # fmt: skip


def _to_codes(attributes, real, scale, point):
    rank = real.ndim
    steps = real / _channels(scale, attributes.get("axis", 1), rank)
    info = np.iinfo(point.dtype)
    codes = np.array([round(Fraction(item)) for item in steps.flat], object).reshape(real.shape)
    codes = codes + _channels(point, attributes.get("axis", 1), rank).astype(object)
    return (np.clip(codes, info.min, info.max).astype(point.dtype),)


def _to_reals(attributes, codes, scale, point):
    axis, rank = attributes.get("axis", 1), codes.ndim
    whole = codes.astype(object) - _channels(point, axis, rank).astype(object)
    return (np.asarray(whole * _channels(scale, axis, rank), object).reshape(codes.shape),)


def _quant(attributes, real, scale, point, bits):
    assert attributes["rounding_mode"] == b"ROUND"
    signed, count = attributes["signed"], int(bits)
    low = -(2 ** (count - 1)) if signed else 0
    steps = np.asarray(real / scale + point, object)
    codes = np.array([round(Fraction(item)) for item in steps.flat], object).reshape(steps.shape)
    return (np.asarray((np.clip(codes, low, low + 2**count - 1) - point) * scale, object),)


def _cast(attributes, values):
    floats = attributes["to"] in (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE)
    return (values.astype(object) + 0 if floats else values.astype(np.int64),)


def _linear(compute, values, *settings):
    """Weigh elements as a function does that is evaluated on each of them alone."""
    alone = np.eye(values.size).reshape(values.size, *values.shape)
    weights = [compute(item, *settings)[0] for item in alone]
    exact = np.vectorize(lambda item: Fraction(item).limit_denominator(MOST_PARTS), otypes=[object])
    found = exact(np.stack(weights, -1).astype(np.float64)) @ values.reshape(-1)
    return (found.reshape(weights[0].shape),)


def _largest(compute, values):
    """Compare places in the order of values."""
    order, places = np.unique(values, return_inverse=True)
    return (order[compute(places.reshape(values.shape).astype(np.float64))[0].astype(int)],)


_FUNCTIONS = {
    "QuantizeLinear": _to_codes,
    "DequantizeLinear": _to_reals,
    "Quant": _quant,
    "Cast": _cast,
}


def _evaluated(model, node):
    """Return the function of a node as the package onnx evaluates it."""
    graph = helper.make_graph(
        [node], "g",
        [helper.make_empty_tensor_value_info(name) for name in dict.fromkeys(node.input) if name],
        [helper.make_empty_tensor_value_info(name) for name in node.output if name],
    )  # fmt: skip
    single = helper.make_model(graph, opset_imports=model.opset_import, ir_version=10)
    run = ReferenceEvaluator(single)

    def compute(*operands):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pairs = zip(node.input, operands, strict=True)
            return run.run(None, {name: item for name, item in pairs if name})

    return compute
