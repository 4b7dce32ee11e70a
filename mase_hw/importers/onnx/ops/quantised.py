"""Integers with a scale: QDQ, and layers on integer codes."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mase_hw.formats.scaled_integer import ScaledInteger
from mase_hw.importers.onnx._values import Codes, Constant, Function, Levels, NodeCall, Sums, Value
from mase_hw.importers.onnx.ops.products import convolve
from mase_hw.ops.infrastructure.scaled_steps import whole_steps

RANGES = {
    "int8": (-128, 127),
    "uint8": (0, 255),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "uint16": (0, (1 << 16) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
}
# Codes that a real of single precision holds, times any scale.
MOST_BITS = 24
MOST_EXACT = 1 << MOST_BITS
MATRIX = 2
FOUR_BITS = {"INT4": (-8, 7), "UINT4": (0, 15)}


def levels_of(
    node: NodeCall, scale: Value, point: Value, low: int, high: int, axis: int = 1
) -> Levels:
    """Return how codes read, checked.

    Raises:
        CaptureError: for scales that are no positive numbers, zero points out of range, and blocks.
    """
    array = node.array(scale, "scale")
    scales = [float(item) for item in array.reshape(-1)]
    if array.ndim > 1:
        raise node.refuse(f"scales of blocks, {list(array.shape)}, are not known; allowed are one")
    for item in scales:
        if not (math.isfinite(item) and item > 0):
            raise node.refuse(f"its scale is {item}; allowed are numbers above 0")
    points = [0] * len(scales)
    if point is not None:
        points = [int(item) for item in node.array(point, "zero point").reshape(-1)]
    if len(points) == 1:
        points *= len(scales)
    if len(points) != len(scales):
        raise node.refuse(f"it has {len(scales)} scales and {len(points)} zero points")
    for item in points:
        if not low <= item <= high:
            raise node.refuse(f"its zero point is {item}; allowed are {low} to {high}")
    return Levels(tuple(scales), tuple(points), axis, low, high)


def _range(node: NodeCall, kind: object, point: Value) -> tuple[int, int]:
    from onnx import TensorProto

    if kind:
        name = TensorProto.DataType.Name(kind)
        if name in FOUR_BITS:
            return FOUR_BITS[name]
        ends = RANGES.get(name.lower())
    elif isinstance(point, Constant):
        ends = RANGES.get(str(point.array.dtype))
        name = str(point.array.dtype)
    else:
        return RANGES["uint8"]
    if ends is None:
        raise node.refuse(f"codes of type {name} are not known; allowed: {', '.join(RANGES)}")
    return ends


def quantized(node: NodeCall, x: Value, scale: Value, point: Value = None) -> Codes:
    """Return the codes of reals."""
    low, high = _range(node, node.get("output_dtype"), point)
    if node.get("block_size"):
        raise node.refuse("scales of blocks are not known; allowed are one, or one a channel")
    levels = levels_of(node, scale, point, low, high, node.get("axis", 1))
    return Codes(levels.rounded(node.tensor(x)), levels, low, high)


def dequantized(node: NodeCall, x: Value, scale: Value, point: Value = None) -> Any:
    """Return the reals that codes stand for; of constants with their levels."""
    if node.get("block_size"):
        raise node.refuse("scales of blocks are not known; allowed are one, or one a channel")
    axis = node.get("axis", 1)
    if isinstance(x, Codes):
        levels = levels_of(node, scale, point, x.low, x.high, axis)
        if x.levels is None:
            return levels.rounded(x.values)
        return x.values if levels == x.levels else _reread(node, x, levels)
    if isinstance(x, Constant):
        kind = str(x.array.dtype)
        if kind not in RANGES:
            raise node.refuse(f"codes of type {kind} are not known; allowed: {', '.join(RANGES)}")
        return decoded(node, x, levels_of(node, scale, point, *RANGES[kind], axis))
    if isinstance(x, Sums) and (point is None or not node.array(point, "zero point").any()):
        scaled = x.times(scale)
        if scaled is not None:
            return scaled
    raise node.refuse("its operand is no tensor of codes: give what QuantizeLinear made")


def _reread(node: NodeCall, codes: Codes, levels: Levels) -> Tensor:
    own = codes.levels
    if own is None or len(own.scale) > 1 or len(levels.scale) > 1:
        raise node.refuse("codes are read in another scale than they were made in, by channels")
    if own.zero_point != levels.zero_point:
        raise node.refuse("codes are read with another zero point than they were made with")
    return levels.rounded(codes.values * (levels.scale[0] / own.scale[0]))


def decoded(node: NodeCall, codes: Constant, levels: Levels) -> Constant:
    """Return the reals of constant codes, which are rounded to their own levels."""
    array = codes.array.astype(np.int64)
    if array.ndim == 1 and bool((abs(array) > MOST_EXACT).any()):
        array, levels = _shifted(node, array, levels)
    if levels.number is None:
        raise node.refuse(
            f"codes {levels.low} to {levels.high} around {levels.zero_point[0]} are of no format"
        )
    shape = [1] * array.ndim
    if len(levels.scale) > 1:
        axis = levels.axis % max(array.ndim, 1)
        if array.ndim <= axis or array.shape[axis] != len(levels.scale):
            raise node.refuse(
                f"it has {len(levels.scale)} scales along dimension {levels.axis} of "
                f"{list(array.shape)}"
            )
        shape[axis] = -1
    points = np.array(levels.zero_point, dtype=np.int64).reshape(shape)
    scales = np.array(levels.scale, dtype=np.float64).reshape(shape)
    values = ((array - points) * scales).astype(np.float32)
    back = np.rint(values.astype(np.float64) / scales).astype(np.int64) + points
    if not np.array_equal(back, array):
        raise node.refuse("codes of more than 24 bits are not kept by reals of single precision")
    values, held = np.asarray(values), codes.tensor
    tensor = None if held is None else torch.from_numpy(values).to(held.device)
    return Constant(values, tensor, levels)


def _shifted(
    node: NodeCall, array: np.ndarray[Any, Any], levels: Levels
) -> tuple[np.ndarray[Any, Any], Levels]:
    """Return a vector of large codes without their last zeros, which its scales take over."""
    if any(levels.zero_point):
        raise node.refuse("codes of more than 24 bits around a zero point are not known")
    count = len(array)
    scales = levels.scale if len(levels.scale) > 1 else levels.scale * count
    shifts = [max(0, (abs(code) - 1).bit_length() - MOST_BITS) for code in array.tolist()]
    powers = np.array([1 << shift for shift in shifts])
    if bool((array % powers).any()):
        raise node.refuse("codes of more than 24 bits are not kept by reals of single precision")
    wider = tuple(scale * int(power) for scale, power in zip(scales, powers, strict=True))
    return array // powers, Levels(wider, (0,) * count, 0, levels.low, levels.high)


def real_values(node: NodeCall, x: Value, scale: Value, point: Value) -> Tensor:
    """Return the reals that codes stand for."""
    return node.tensor(dequantized(node, x, scale, point))


def _qlinear_conv(node: NodeCall, *given: Value) -> Codes:
    values, weight = real_values(node, *given[:3]), real_values(with_axis(node, 0), *given[3:6])
    shift = (*given, None)[8]
    bias = None if shift is None else real_bias(node, shift, given[1], given[4])
    return quantized(node, convolve(node, values, weight, bias), *given[6:8])


def real_bias(node: NodeCall, bias: Value, x_scale: Value, w_scale: Value) -> Tensor:
    """Return the reals of a bias, whose units are the products of two scales."""
    unit = node.array(x_scale, "scale").astype(np.float64) * node.array(w_scale, "scale")
    array = node.array(bias, "bias")
    units = tuple(float(item) for item in np.broadcast_to(unit.reshape(-1), (array.size,)))
    levels = Levels(units, (0,) * array.size, 0, *RANGES["int32"])
    held = bias.tensor if isinstance(bias, Constant) else None
    return node.tensor(decoded(node, Constant(array, held), levels))


def with_axis(node: NodeCall, axis: int) -> NodeCall:
    """Return a node whose scales are those of another dimension."""
    return replace(node, attributes={"axis": axis})


def _qlinear_matmul(node: NodeCall, *given: Value) -> Codes:
    left, right = real_values(node, *given[:3]), real_values(with_axis(node, -1), *given[3:6])
    layer = isinstance(given[3], Constant) and right.dim() == 2
    product = F.linear(left, right.t()) if layer else torch.matmul(left, right)
    return quantized(node, product, *given[6:8])


def _conv_integer(node: NodeCall, x: Value, weight: Value, *points: Value) -> Sums:
    return _sums(node, x, weight, points, 0, partial(convolve, node))


def matmul_integer(node: NodeCall, a: Value, b: Value, *points: Value) -> Sums:
    """Return the sums of products of codes with a matrix of them."""
    return _sums(node, a, b, points, 1, lambda x, weight, bias: F.linear(x, weight.t(), bias))


def _sums(
    node: NodeCall, x: Value, weight: Value, points: tuple[Value, ...], axis: int,
    layer: Callable[[Tensor, Tensor, Tensor | None], Tensor],
) -> Sums:  # fmt: skip
    """Return the sums of a layer of integers, whose weights hold results along an axis."""
    x_point, point = (*points, None, None)[:2]
    if not isinstance(weight, Constant):
        raise node.refuse("its weights are computed by the model; allowed are constant ones")
    if axis and weight.array.ndim != MATRIX:
        raise node.refuse(f"its weights are {list(weight.array.shape)}; allowed is a matrix")
    codes, count = _codes_around(node, x, x_point), weight.array.shape[axis]
    assert codes.levels is not None
    (unit,) = map(Fraction, codes.levels.scale)

    def computed(units: tuple[Fraction, ...], biases: tuple[Fraction, ...]) -> Tensor:
        values, scales = codes.values, [float(item / unit) for item in units]
        if any(Fraction(scale) * unit != item for scale, item in zip(scales, units, strict=True)):
            # No scale of the weights makes up for that of the codes: whole numbers have none.
            values, scales = _whole_numbers(node, codes), [float(item) for item in units]
            if any(map(operator.ne, scales, units)):
                raise node.refuse("its factors have more than 53 bits together; give one factor")
        scale = Constant(np.array(scales))
        held = real_values(with_axis(node, axis), weight, scale, point)
        if not biases:
            return layer(values, held, None)
        return layer(values, held, _real_biases(node, biases, units, count).to(values.device))

    return Sums(computed, count, -1 if axis else 1 - weight.array.ndim)


def _codes_around(node: NodeCall, x: Value, point: Value) -> Codes:
    if not isinstance(x, Codes):
        raise node.refuse("its operand is no tensor of codes: give what QuantizeLinear made")
    levels = levels_of(node, Constant(np.ones(1)), point, x.low, x.high)
    if x.levels is None:
        return replace(x, values=levels.rounded(x.values), levels=levels)
    if x.levels.zero_point != levels.zero_point:
        raise node.refuse(
            f"its zero point is {levels.zero_point[0]}; its codes were made with "
            f"{x.levels.zero_point[0]}, of which there must be one"
        )
    return x


def _whole_numbers(node: NodeCall, codes: Codes) -> Tensor:
    number = None if codes.levels is None else codes.levels.number
    if not isinstance(number, ScaledInteger):
        raise node.refuse(f"codes {codes.low} to {codes.high} are of no format")
    return whole_steps(codes.values, number)


def _real_biases(
    node: NodeCall, biases: tuple[Fraction, ...], units: tuple[Fraction, ...], count: int
) -> Tensor:
    """Return biases as integers in units of their sums, or of powers of two."""
    each = [items * (count if len(items) == 1 else 1) for items in (biases, units)]
    codes, scales = [], []
    for bias, unit in zip(*each, strict=True):
        step = unit
        if (bias / unit).denominator > 1:
            odd = bias.numerator & -bias.numerator
            step = Fraction(odd, bias.denominator)
        codes.append(int(bias / step))
        scales.append(float(step))
    if max(map(abs, codes)) >= MOST_EXACT:
        raise node.refuse("its biases, added up, have more than 24 bits; give one bias")
    levels = Levels(tuple(scales), (0,) * count, 0, *RANGES["int32"])
    return node.tensor(decoded(node, Constant(np.array(codes)), levels))


OPERATORS: dict[str, Function] = {
    "ConvInteger": _conv_integer,
    "DequantizeLinear": dequantized,
    "MatMulInteger": matmul_integer,
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear_matmul,
    "QuantizeLinear": quantized,
}

REFUSED = {
    "DynamicQuantizeLinear": "it finds a scale as it runs; export QDQ, quantised statically, as by "
    "onnxruntime.quantization.quantize_static"
}
