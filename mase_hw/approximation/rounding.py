"""Correctly rounded results of a real function in a fixed-point format.

Float64 decides wherever its error cannot change the rounding; the codes that lie within that
error of a rounding boundary are decided by `PRECISE` arithmetic (Ziv's strategy: Ziv, "Fast
evaluation of elementary mathematical functions with correctly rounded last bit", 1991).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from mase_hw.approximation._real_math import FAST, PRECISE, RealMath
from mase_hw.errors import UnsupportedError
from mase_hw.formats.fixed import Fixed

RealFunction = Callable[[Any, RealMath], Any]

# Bound on the error of a float64 evaluation, relative to |x| + |f(x)| + 1.
FAST_ERROR = 2.0**-44
_WRAP_LIMIT_BITS = 62


def correctly_rounded(
    function: RealFunction, codes: Tensor, operand: Fixed, result: Fixed
) -> Tensor:
    """Return the int64 codes of `function` at `codes`, each rounded once.

    Raises:
        UnsupportedError: when a format that wraps would wrap a value of more than 62 bits.
    """
    x = operand.decode(codes)
    values = function(x, FAST)
    sure = _decided(values, x, result)
    rounded = result.encode(torch.where(sure, values, torch.zeros_like(values)))
    places = torch.nonzero(~sure.flatten()).flatten().tolist()
    flat = rounded.flatten()
    for place in places:
        real = PRECISE.context.mpf(float(x.flatten()[place]))
        flat[place] = _round_precise(function(real, PRECISE), result)
    return flat.reshape(codes.shape)


def _decided(values: Tensor, x: Tensor, result: Fixed) -> Tensor:
    """Return true where an error of `FAST_ERROR` cannot change the code."""
    scale = 2.0**result.frac_width
    scaled = values * scale
    error = FAST_ERROR * (values.abs() + x.abs() + 1.0) * scale
    fraction = scaled - torch.floor(scaled)
    if result.rounding.startswith("nearest"):
        distance = (fraction - 0.5).abs()
    else:
        distance = torch.minimum(fraction, 1.0 - fraction)
    sure = (distance > error) & (scaled.abs() < 2.0**50)
    if result.overflow == "saturate":
        sure |= scaled - error > result.maximum_code + 1
        sure |= scaled + error < result.minimum_code - 1
        sure |= values.isinf()
    return sure


def _round_precise(value: Any, result: Fixed) -> int:
    if PRECISE.context.isnan(value):
        raise UnsupportedError(
            "it gives no number (NaN) for some codes of its operand: give it finite arguments"
        )
    if PRECISE.context.isinf(value):
        return result.maximum_code if value > 0 else result.minimum_code
    scaled = PRECISE.context.ldexp(value, result.frac_width)
    if result.overflow == "saturate":
        scaled = PRECISE.clip(scaled, result.minimum_code - 1, result.maximum_code + 1)
    elif abs(scaled) >= 1 << _WRAP_LIMIT_BITS:
        raise UnsupportedError(
            f"{result} would wrap a value of more than {_WRAP_LIMIT_BITS} bits: "
            "use overflow `saturate`"
        )
    below = int(PRECISE.context.floor(scaled))
    rest = scaled - below
    if result.rounding == "nearest_even":
        up = rest > 0.5 or (rest == 0.5 and below % 2 == 1)
    elif result.rounding == "nearest_up":
        up = rest >= 0.5
    else:
        up = result.rounding == "toward_zero" and below < 0 and rest > 0
    code = below + int(up)
    if result.overflow == "saturate":
        return max(result.minimum_code, min(result.maximum_code, code))
    return (code - result.minimum_code) % (1 << result.width) + result.minimum_code
