"""What a QDQ file says, in exact rational numbers: no code of the package, and onnx as a parser.

A real tensor is `n * unit + offset` with whole `n`, a unit and an offset for each channel. Rounding
to codes looks up which whole numbers lie between two halves of a step; halves go to the even code.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import onnx
from onnx import numpy_helper


@dataclass
class Real:
    """`whole * units + offsets`, channels along `axis`."""

    whole: np.ndarray
    units: list[Fraction]
    offsets: list[Fraction]
    axis: int = 1
    low: Fraction | None = None
    high: Fraction | None = None

    def moved(self, whole: np.ndarray) -> Real:
        assert len(self.units) == len(self.offsets) == 1
        return Real(whole, self.units, self.offsets)


@dataclass
class Total:
    """The sum of two reals of one unit each."""

    first: Real
    second: Real


class RationalModel:
    """Evaluates a file on batches, though its own shapes are those of one inference."""

    def __init__(self, path):
        self.model = onnx.load(str(path))
        self.constants = {
            item.name: numpy_helper.to_array(item) for item in self.model.graph.initializer
        }

    def codes(self, values):
        """Return the codes of every QuantizeLinear by the name of its result.

        Args:
            values: float32 `[inferences, ...]` of the one input.
        """
        (given,) = [i for i in self.model.graph.input if i.name not in self.constants]
        known: dict[str, object] = {given.name: values}
        found = {}
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
            known[node.output[0]] = result
            if node.op_type == "QuantizeLinear":
                found[node.output[0]] = result
        return found

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

    def layer(self, sums, x, weight, bias):
        """Return sums of products with their units, and biases as offsets."""
        count = sums.shape[1]
        (unit,) = x.units
        units = [unit * item for item in weight.units] * (1 if len(weight.units) > 1 else count)
        offsets = [Fraction(0)] * count
        if bias is not None:
            steps = bias.units * (1 if len(bias.units) > 1 else count)
            offsets = [int(n) * step for n, step in zip(bias.whole, steps, strict=True)]
        return Real(sums, units, offsets)

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
        sums = np.einsum(
            "ngcyxij,gocij->ngoyx", parts.astype(np.float64), filters.astype(np.float64),
            optimize=True,
        )  # fmt: skip
        sums = sums.astype(np.int64).reshape(n, -1, height, width)
        return self.layer(sums, x, weight, bias)

    def Gemm(self, attributes, x, weight, bias=None):  # noqa: N802
        assert attributes.get("alpha", 1) == attributes.get("beta", 1) == 1
        matrix = weight.whole.T if attributes.get("transB", 0) else weight.whole
        return self.layer(x.whole @ matrix, x, weight, bias)

    def Add(self, attributes, first, second):  # noqa: N802
        return Total(first, second)

    def AveragePool(self, attributes, x):  # noqa: N802
        kernel, strides = attributes["kernel_shape"], attributes["strides"]
        assert not any(attributes.get("pads", []))
        windows = np.lib.stride_tricks.sliding_window_view(x.whole, kernel, axis=(2, 3))
        sums = windows[:, :, :: strides[0], :: strides[1]].sum((-2, -1))
        return Real(sums, [x.units[0] / int(np.prod(kernel))], [Fraction(0)])

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
        return self.layer(x.whole @ weight.whole, x, weight, None)

    def Transpose(self, attributes, x):  # noqa: N802
        moved = (x if isinstance(x, np.ndarray) else x.whole).transpose(attributes["perm"])
        return moved if isinstance(x, np.ndarray) else x.moved(moved)

    def Reshape(self, attributes, x, shape):  # noqa: N802
        array = x if isinstance(x, np.ndarray) else x.whole
        moved = array.reshape(len(array), *[int(size) for size in shape[1:]])
        return moved if isinstance(x, np.ndarray) else x.moved(moved)


def last(border: Fraction, inside: bool, unit: Fraction, offset: Fraction) -> int:
    """Return the largest n with `n * unit + offset` below a border, or on it."""
    place = (border - offset) / unit
    found = place.numerator // place.denominator
    return found - (not inside and place == found)


def is_sorted(values) -> bool:
    return all(a <= b for a, b in pairwise(values))
