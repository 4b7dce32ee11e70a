"""QONNX: quantisers that give reals, with a scale, a zero point and bits of any number.

Source: Pappalardo et al., "QONNX: Representing Arbitrary-Precision Quantized Neural Networks"
(2022), arXiv:2206.07527.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from mase_hw.importers.onnx._values import Constant, Function, Levels, NodeCall, Value

DOMAINS = ("qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general")
ROUNDINGS = {
    "ROUND": "nearest_even",
    "HALF_EVEN": "nearest_even",
    "FLOOR": "floor",
    "DOWN": "toward_zero",
    "ROUND_TO_ZERO": "toward_zero",
}
MAX_BITS = 24


def _scales(node: NodeCall, scale: Value, rank: int, shape: torch.Size) -> tuple[list[float], int]:
    """Return the scales, and the dimension of their channels."""
    array = node.array(scale, "scale").astype(np.float64)
    for item in array.reshape(-1):
        if not (math.isfinite(item) and item > 0):
            raise node.refuse(f"its scale is {item}; allowed are numbers above 0")
    wide = [dim for dim, size in enumerate(array.shape) if size > 1]
    if not wide:
        return [float(array.reshape(-1)[0])], 0
    axis = wide[0] + rank - array.ndim
    if len(wide) > 1 or not 0 <= axis < rank or array.shape[wide[0]] != shape[axis]:
        raise node.refuse(
            f"its scales {list(array.shape)} are of several dimensions of {list(shape)}; allowed "
            "are one, or one for each channel"
        )
    return [float(item) for item in array.reshape(-1)], axis


def _quant(node: NodeCall, x: Value, scale: Value, point: Value, bits: Value) -> Value:
    values = node.tensor(x)
    scales, axis = _scales(node, scale, values.dim(), values.shape)
    width = float(node.array(bits, "bit width").reshape(-1)[0])
    if width != int(width) or not 1 <= width <= MAX_BITS:
        raise node.refuse(f"its bit width is {width}; allowed are 1 to {MAX_BITS}")
    signed, narrow = bool(node.get("signed", 1)), bool(node.get("narrow", 0))
    size = 1 << int(width)
    low, high = (-size // 2 + narrow, size // 2 - 1) if signed else (0, size - 1 - narrow)
    offsets = node.array(point, "zero point").astype(np.float64).reshape(-1)
    if len(set(offsets)) > 1 or offsets[0] != int(offsets[0]) or not low <= offsets[0] <= high:
        raise node.refuse(f"its zero point is {offsets[0]}; allowed are {low} to {high}")
    mode = str(node.get("rounding_mode", "ROUND")).upper()
    if mode not in ROUNDINGS:
        known = ", ".join(ROUNDINGS)
        raise node.refuse(f"its rounding mode is {mode}; numbers that stream have {known}")
    points = (int(offsets[0]),) * len(scales)
    levels = Levels(tuple(scales), points, axis, low, high, ROUNDINGS[mode])
    return _rounded(node, x, values, levels)


def _rounded(node: NodeCall, x: Value, values: Tensor, levels: Levels) -> Value:
    found = levels.rounded(values)
    return Constant(x.array, found) if isinstance(x, Constant) else found


def _bipolar(node: NodeCall, x: Value, scale: Value) -> Value:
    """Return a sign, times the scale: the two codes of one bit around zero."""
    values = node.tensor(x)
    scales, _ = _scales(node, scale, values.dim(), values.shape)
    if len(scales) > 1:
        raise node.refuse("signs have one scale; this has one for each channel")
    found: Tensor = torch.where(values >= 0, scales[0], -scales[0])
    return Constant(x.array, found) if isinstance(x, Constant) else found


def _thresholds(node: NodeCall, x: Value, bounds: Value) -> Tensor:
    """Return how many bounds each element reaches, times a factor, and an offset."""
    values, limits = node.tensor(x), node.tensor(bounds)
    if not isinstance(bounds, Constant):
        raise node.refuse("its thresholds are computed by the model; allowed are constants")
    last = str(node.get("data_layout", "NCHW")) in ("NHWC", "NWC")
    shape = [1] * values.dim()
    shape[-1 if last or values.dim() < 2 else 1] = -1
    ordered = torch.sort(limits, dim=1).values
    counts = torch.zeros_like(values)
    for place in range(ordered.shape[1]):
        counts = counts + (values >= ordered[:, place].reshape(shape)).to(values.dtype)
    scale, offset = float(node.get("out_scale", 1.0)), float(node.get("out_bias", 0.0))
    return counts * scale + offset


OPERATORS: dict[str, Function] = {
    "BipolarQuant": _bipolar,
    "IntQuant": _quant,
    "MultiThreshold": _thresholds,
    "Quant": _quant,
}
