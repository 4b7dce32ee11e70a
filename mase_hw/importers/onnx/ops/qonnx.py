"""QONNX: quantisers that give reals, with a scale, a zero point and bits of any number.

Source: Pappalardo et al., "QONNX: Representing Arbitrary-Precision Quantized Neural Networks"
(2022), arXiv:2206.07527.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mase_hw.errors import FormatError
from mase_hw.formats import FloatFormat, Format
from mase_hw.formats.minifloat import MinifloatDenorm, MinifloatIEEE
from mase_hw.formats.ocp_float import FP8E4M3
from mase_hw.importers.onnx._values import Constant, Floats, Function, Levels, NodeCall, Value
from mase_hw.ops.infrastructure.fake_quantize import moved_ties
from mase_hw.ops.infrastructure.thresholds import MAX_BOUNDS

DOMAINS = ("qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general")
Array = np.ndarray[Any, Any]
# Roundings that tensors which stream have.
ROUNDINGS = {
    "ROUND": "nearest_even",
    "HALF_EVEN": "nearest_even",
    "FLOOR": "floor",
    "DOWN": "toward_zero",
    "ROUND_TO_ZERO": "toward_zero",
}
# And those that constants have, which are rounded here.
CONSTANT_ROUNDINGS: Mapping[str, Callable[[Array], Array]] = {
    "ROUND": np.rint,
    "HALF_EVEN": np.rint,
    "FLOOR": np.floor,
    "CEIL": np.ceil,
    "DOWN": np.trunc,
    "ROUND_TO_ZERO": np.trunc,
    "UP": lambda x: np.copysign(np.ceil(abs(x)), x),
    "HALF_UP": lambda x: np.copysign(np.floor(abs(x) + 0.5), x),
    "HALF_DOWN": lambda x: np.copysign(np.ceil(abs(x) - 0.5), x),
}
MAX_BITS = 24
# Operands of the first version of a truncation, but the first one.
FIRST_TRUNC = 4
# The mantissa of a power of two.
POWER = 0.5


def _scales(node: NodeCall, scale: Value, shape: torch.Size) -> tuple[list[float], int]:
    array = node.array(scale, "scale").astype(np.float64)
    for item in array.reshape(-1):
        if not (math.isfinite(item) and item > 0):
            raise node.refuse(f"its scale is {item}; allowed are numbers above 0")
    wide = [dim for dim, size in enumerate(array.shape) if size > 1]
    if not wide:
        return [float(array.reshape(-1)[0])], 0
    axis = wide[0] + len(shape) - array.ndim
    if len(wide) > 1 or not 0 <= axis < len(shape) or array.shape[wide[0]] != shape[axis]:
        raise node.refuse(
            f"its scales {list(array.shape)} are of several dimensions of {list(shape)}; allowed "
            "are one, or one for each channel"
        )
    return [float(item) for item in array.reshape(-1)], axis


def _quant(node: NodeCall, x: Value, scale: Value, point: Value, bits: Value) -> Value:
    low, high = _ends(node, bits)
    offsets = node.array(point, "zero point").astype(np.float64).reshape(-1)
    if len(set(offsets)) > 1 or offsets[0] != int(offsets[0]) or not low <= offsets[0] <= high:
        raise node.refuse(f"its zero point is {offsets[0]}; allowed are {low} to {high}")
    if (low, high) == (-1, 0):
        if offsets[0]:
            raise node.refuse(f"its zero point is {offsets[0]}; one bit with a sign has 0")
        return _bipolar(node, x, scale)
    mode = str(node.get("rounding_mode", "ROUND")).upper()
    return _rounded(node, x, scale, int(offsets[0]), (low, high), mode)


def _ends(node: NodeCall, bits: Value) -> tuple[int, int]:
    width = float(node.array(bits, "bit width").reshape(-1)[0])
    if width != int(width) or not 1 <= width <= MAX_BITS:
        raise node.refuse(f"its bit width is {width}; allowed are 1 to {MAX_BITS}")
    signed, narrow = bool(node.get("signed", 1)), bool(node.get("narrow", 0))
    size = 1 << int(width)
    return (-size // 2 + narrow, size // 2 - 1) if signed else (0, size - 1 - narrow)


def _rounded(
    node: NodeCall, x: Value, scale: Value, point: int, ends: tuple[int, int], mode: str
) -> Value:
    """Round what streams to levels; of a constant return the levels too."""
    constant = isinstance(x, Constant)
    known = CONSTANT_ROUNDINGS if constant else ROUNDINGS
    if mode not in known:
        what = "constants" if constant else "tensors that stream"
        raise node.refuse(f"its rounding mode is {mode}; {what} have {', '.join(known)}")
    values = node.tensor(x)
    scales, axis = _scales(node, scale, values.shape)
    points = (point,) * len(scales)
    if not constant:
        if ROUNDINGS[mode] == "nearest_even" and (why := moved_ties(scales, points)):
            raise node.refuse(why)
        return Levels(tuple(scales), points, axis, *ends, ROUNDINGS[mode]).rounded(values)
    levels = Levels(tuple(scales), points, axis, *ends)
    if ROUNDINGS.get(mode) == levels.rounding and not point % 2:
        return Constant(values.detach().numpy(), None, levels)
    shape = [-1 if dim == axis and len(scales) > 1 else 1 for dim in range(values.dim())]
    steps = np.array(scales).reshape(shape)
    codes = CONSTANT_ROUNDINGS[mode](values.detach().double().numpy() / steps + point)
    codes = np.clip(codes, *ends) - point
    return Constant((codes * steps).astype(np.float32), None, levels)


def _trunc(node: NodeCall, x: Value, *given: Value) -> Value:
    """Return codes without their last bits.

    Of the second version the result's scale is so many times as large; of the first it is that of
    the operand, and the result so many times as small.
    """
    if len(given) not in (FIRST_TRUNC, FIRST_TRUNC + 1):
        raise node.refuse(f"it has {len(given) + 1} operands; allowed are 5, and 6 in version 2")
    scale, point, wide, *_, bits = given
    if node.array(point, "zero point").any():
        raise node.refuse("its zero point is not 0, which truncation moves")
    mode = str(node.get("rounding_mode", "FLOOR")).upper()
    if len(given) > FIRST_TRUNC:
        return _rounded(node, x, given[3], 0, _ends(node, bits), mode)
    lost = _whole_number(node, wide, "bit width") - _whole_number(node, bits, "bit width")
    if lost < 0:
        raise node.refuse(f"it gives {-lost} bits more than it takes")
    # The first version does not say whether codes have a sign, and bounds none.
    low, high = _ends(node, bits)
    reals = node.tensor(x) * 2.0**-lost
    return _rounded(node, reals, scale, 0, (2 * low, 2 * high + 1), mode)


def _float_quant(
    node: NodeCall, x: Value, scale: Value, exponent: Value, mantissa: Value, bias: Value = None,
    largest: Value = None,
) -> Value:  # fmt: skip
    """Return the nearest floats of few bits; of a constant their format too."""
    mode = str(node.get("rounding_mode", "ROUND")).upper()
    if ROUNDINGS.get(mode) != "nearest_even":
        raise node.refuse(f"its rounding mode is {mode}; floats have ROUND")
    if not node.get("saturation", 1):
        raise node.refuse("its saturation is 0; floats of hardware saturate, without infinities")
    # The largest number is given: codes of infinity or NaN behind it are not reached.
    node.get("has_inf")
    node.get("has_nan")
    if not node.get("has_subnormal", 1):
        raise node.refuse("floats without subnormal numbers have no hardware")
    unit = _number(node, scale, "scale", 1.0)
    if not unit > 0 or math.frexp(unit)[0] != POWER:
        raise node.refuse(
            f"its scale is {unit}; the exponent of a minifloat takes in powers of two, and a float "
            "with another scale has no hardware"
        )
    bits, digits = (
        _whole_number(node, item, what)
        for item, what in ((exponent, "exponent width"), (mantissa, "mantissa width"))
    )
    centre = _whole_number(node, bias, "exponent bias", 2 ** (bits - 1) - 1)
    most = _number(node, largest, "largest number", math.inf) * unit
    number = _float_format(node, bits, digits, centre - round(math.log2(unit)), most)
    values = Floats(number).rounded(node.tensor(x))
    if isinstance(x, Constant):
        return Constant(values.detach().numpy(), None, Floats(number))
    return values


def _float_format(node: NodeCall, bits: int, digits: int, bias: int, most: float) -> Format:
    """Return the minifloat of such an exponent and mantissa whose largest number it is."""
    width = 1 + bits + digits
    try:
        full = MinifloatDenorm(width, bits, bias)
        ieee = MinifloatIEEE(width, bits, bias) if bits > 1 else full
    except FormatError as error:
        raise node.refuse(str(error)) from error
    known: list[FloatFormat] = [full, ieee, FP8E4M3()]
    most = min(most, full.layout.maximum)
    for item in known:
        layout = item.layout
        given = layout.exponent_width, layout.mantissa_width, layout.bias
        if given == (bits, digits, bias) and layout.maximum == most:
            return item
    raise node.refuse(
        f"no minifloat of {bits} bits of exponent around {bias} and {digits} of mantissa ends at "
        f"{most:g}, as it says; those without specials end at {full.layout.maximum:g}, those of "
        f"IEEE 754 at {ieee.layout.maximum:g}"
    )


def _number(node: NodeCall, value: Value, what: str, default: float) -> float:
    if value is None:
        return default
    numbers = {float(item) for item in node.array(value, what).reshape(-1)}
    if len(numbers) != 1:
        raise node.refuse(f"its {what} are {len(numbers)} different ones; allowed is one")
    return numbers.pop()


def _whole_number(node: NodeCall, value: Value, what: str, default: int = 0) -> int:
    number = _number(node, value, what, default)
    if not float(number).is_integer():
        raise node.refuse(f"its {what} is {number}; allowed are whole numbers")
    return int(number)


def _bipolar(node: NodeCall, x: Value, scale: Value) -> Value:
    """Return a sign, times the scale: the two codes of one bit around zero."""
    values = node.tensor(x)
    scales, axis = _scales(node, scale, values.shape)
    if isinstance(x, Constant):
        shape = [-1 if dim == axis and len(scales) > 1 else 1 for dim in range(values.dim())]
        signs = np.where(values.numpy() >= 0, 1.0, -1.0) * np.array(scales).reshape(shape)
        levels = Levels(tuple(scales), (0,) * len(scales), axis, -1, 1)
        return Constant(signs.astype(np.float32), None, levels)
    if len(scales) > 1:
        raise node.refuse("signs that stream have one scale; this has one for each channel")
    return _compared(node, values, np.zeros((1, 1)), 2 * scales[0], -scales[0])


def _thresholds(node: NodeCall, x: Value, bounds: Value) -> Tensor:
    """Return how many bounds each element reaches, times a factor, and an offset."""
    limits = np.sort(node.array(bounds, "thresholds").astype(np.float64), axis=1)
    if not np.isfinite(limits).all():
        raise node.refuse("a threshold is no finite number")
    scale, offset = float(node.get("out_scale", 1.0)), float(node.get("out_bias", 0.0))
    if not (math.isfinite(scale) and scale > 0 and math.isfinite(offset)):
        raise node.refuse(f"out_scale is {scale}, out_bias {offset}; allowed is a scale above 0")
    return _compared(node, node.tensor(x), limits, scale, offset)


def _compared(node: NodeCall, values: Tensor, limits: Array, scale: float, offset: float) -> Tensor:
    """Return `offset`, and `scale` more for each limit `[channels, count]` that is reached.

    Limits half way between multiples of the scale are a rounding.
    """
    count = limits.shape[1]
    unit = scale if (offset / scale).is_integer() else scale / 2
    least = offset / unit
    if not least.is_integer():
        raise node.refuse(f"out_bias is {offset}; allowed are multiples of half of {scale}")
    low, high = int(least), int(least) + count * round(scale / unit)
    if unit == scale and bool((limits == (low + 0.5 + np.arange(count)) * scale).all()):
        levels = Levels((scale,), (0,), 0, low, high, "nearest_up")
        if levels.number is not None:
            return levels.rounded(values)
    if count > MAX_BOUNDS:
        raise node.refuse(f"it has {count} thresholds a channel; allowed are {MAX_BOUNDS}")
    # The last numbers below the limits.
    below = np.nextafter(limits, -np.inf)
    last = str(node.get("data_layout", "NCHW")) in ("NHWC", "NWC", "NC")
    shape = [1] * values.dim()
    shape[-1 if last or values.dim() < 2 else 1] = len(below)
    bounds = torch.from_numpy(below).to(values.device).reshape(*shape, count)
    ones = torch.ones(shape, dtype=torch.float64, device=values.device)
    counted = torch.ops.mase.thresholds(values, bounds, ones, offset, scale)
    return _whole(unit, low, high).rounded(counted)


def _whole(unit: float, low: int, high: int) -> Levels:
    bits = max(2, high.bit_length() + (low < 0), (-low - 1).bit_length() + 1 if low < 0 else 0)
    if low >= 0:
        return Levels((unit,), (0,), 0, 0, (1 << bits) - 1)
    half = 1 << (bits - 1)
    return Levels((unit,), (0,), 0, -half + (low == -high), half - 1)


OPERATORS: dict[str, Function] = {
    "BipolarQuant": _bipolar,
    "FloatQuant": _float_quant,
    "IntQuant": _quant,
    "MultiThreshold": _thresholds,
    "Quant": _quant,
    "Trunc": _trunc,
}
