"""Integers with a scale: QDQ, and layers on integer codes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mase_hw.importers.onnx._values import Codes, Constant, Function, Levels, NodeCall, Value
from mase_hw.importers.onnx.ops.products import convolve

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
    """Return the least and the largest code of a type."""
    from onnx import TensorProto

    if kind:
        name = TensorProto.DataType.Name(kind)
        if name in FOUR_BITS:
            return FOUR_BITS[name]
        found = RANGES.get(name.lower())
    elif isinstance(point, Constant):
        found = RANGES.get(str(point.array.dtype))
        name = str(point.array.dtype)
    else:
        return RANGES["uint8"]
    if found is None:
        raise node.refuse(f"codes of type {name} are not known; allowed: {', '.join(RANGES)}")
    return found


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
        if levels != x.levels:
            return _reread(node, x, levels)
        return x.values
    if isinstance(x, Constant):
        return _constant(node, x, scale, point, axis)
    raise node.refuse("its operand is no tensor of codes: give what QuantizeLinear made")


def _reread(node: NodeCall, codes: Codes, levels: Levels) -> Tensor:
    """Return the reals that codes stand for in another scale."""
    own = codes.levels
    if own is None or len(own.scale) > 1 or len(levels.scale) > 1:
        raise node.refuse("codes are read in another scale than they were made in, by channels")
    if own.zero_point != levels.zero_point:
        raise node.refuse("codes are read with another zero point than they were made with")
    return levels.rounded(codes.values * (levels.scale[0] / own.scale[0]))


def _constant(node: NodeCall, x: Constant, scale: Value, point: Value, axis: int) -> Constant:
    """Return reals that a parameter of codes stands for, with the format that says so."""
    kind = str(x.array.dtype)
    if kind not in RANGES:
        raise node.refuse(f"codes of type {kind} are not known; allowed: {', '.join(RANGES)}")
    low, high = RANGES[kind]
    levels = levels_of(node, scale, point, low, high, axis)
    return decoded(node, x, levels)


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
    return Constant(values, None, levels)


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
    found = dequantized(node, x, scale, point)
    return node.tensor(found)


def _qlinear_conv(
    node: NodeCall,
    x: Value,
    x_scale: Value,
    x_point: Value,
    w: Value,
    w_scale: Value,
    w_point: Value,
    y_scale: Value,
    y_point: Value,
    bias: Value = None,
) -> Codes:
    values = real_values(node, x, x_scale, x_point)
    weight = real_values(with_axis(node, 0), w, w_scale, w_point)
    shift = None if bias is None else real_bias(node, bias, x_scale, w_scale)
    return quantized(node, convolve(node, values, weight, shift), y_scale, y_point)


def real_bias(node: NodeCall, bias: Value, x_scale: Value, w_scale: Value) -> Tensor:
    """Return the reals of a bias, whose units are the products of two scales."""
    unit = node.array(x_scale, "scale").astype(np.float64) * node.array(w_scale, "scale")
    array = node.array(bias, "bias")
    units = tuple(float(item) for item in np.broadcast_to(unit.reshape(-1), (array.size,)))
    levels = Levels(units, (0,) * array.size, 0, *RANGES["int32"])
    return node.tensor(decoded(node, Constant(array), levels))


def with_axis(node: NodeCall, axis: int) -> NodeCall:
    """Return a node whose scales are those of another dimension."""
    return replace(node, attributes={"axis": axis})


def _qlinear_matmul(
    node: NodeCall,
    a: Value,
    a_scale: Value,
    a_point: Value,
    b: Value,
    b_scale: Value,
    b_point: Value,
    y_scale: Value,
    y_point: Value,
) -> Codes:
    left = real_values(node, a, a_scale, a_point)
    right = real_values(with_axis(node, -1), b, b_scale, b_point)
    layer = isinstance(b, Constant) and right.dim() == 2
    product = F.linear(left, right.t()) if layer else torch.matmul(left, right)
    return quantized(node, product, y_scale, y_point)


OPERATORS: dict[str, Function] = {
    "DequantizeLinear": dequantized,
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear_matmul,
    "QuantizeLinear": quantized,
}

_SUMS = (
    "its result is sums of integers, which the model scales afterwards; give QLinear layers, or "
    "float layers between QuantizeLinear and DequantizeLinear"
)
REFUSED = {
    "ConvInteger": _SUMS,
    "DynamicQuantizeLinear": "it finds a scale as it runs; quantise the model statically",
    "MatMulInteger": _SUMS,
}
