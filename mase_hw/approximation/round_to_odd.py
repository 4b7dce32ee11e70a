"""A real function rounded to odd: enough to round its results once more, to any narrower format.

A result of `bits` significant bits whose last bit is one where anything was lost lies on the same
side of every shorter number and of every middle between two as the function does, so that rounding
it to a format of at most `bits - 2` significant bits gives the correctly rounded code. Float64
decides where its error cannot matter, `PRECISE` arithmetic elsewhere, as in `rounding`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mase_hw.approximation._real_math import FAST, PRECISE
from mase_hw.approximation.rounding import FAST_ERROR, RealFunction
from mase_hw.arithmetic.scaled import Scaled

MAX_BITS = 40
# Results beyond these powers of two are beyond every format; their size no longer matters.
HIGHEST_PLACE, LOWEST_PLACE = 600, -600


def rounded_to_odd(function: RealFunction, x: Tensor, bits: int) -> tuple[Scaled, Tensor]:
    """Return the function at finite float64 `x` `[n]`: numbers of `bits` bits, or zero.

    Infinite and undefined operands give what float64 arithmetic gives.

    Args:
        function: the function.
        x: its operands.
        bits: significant bits, up to `MAX_BITS`.

    Returns:
        The results, and true where the result is NaN.
    """
    values = function(x, FAST)
    finite = torch.isfinite(x)
    integers, exponents, sure = _decided(values, x, bits)
    for place in torch.nonzero(finite & ~sure).flatten().tolist():
        value = function(PRECISE.context.mpf(float(x[place])), PRECISE)
        pole = PRECISE.context.isinf(value)
        integers[place], exponents[place] = (_limit if pole else _precise)(value, bits)
    for place in torch.nonzero(~finite & ~torch.isnan(values)).flatten().tolist():
        integers[place], exponents[place] = _limit(float(values[place]), bits)
    top = exponents + bits
    high, low = top > HIGHEST_PLACE, top < LOWEST_PLACE
    exponents = torch.where(high, HIGHEST_PLACE - bits, exponents)
    exponents = torch.where(low, LOWEST_PLACE - bits, exponents)
    return Scaled(integers, exponents), torch.isnan(values) & ~finite


def _decided(values: Tensor, x: Tensor, bits: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return integers and exponents, and where an error of `FAST_ERROR` cannot change them."""
    finite = values.nan_to_num(0.0, posinf=0.0, neginf=0.0)
    mantissa, top = torch.frexp(finite.abs())
    steps = mantissa * 2.0**bits
    margin = FAST_ERROR * (x.abs() + values.abs() + 1.0) * torch.pow(2.0, (bits - top).double())
    below, above = torch.floor(steps - margin), torch.floor(steps + margin)
    sure = torch.isfinite(values) & (below == above) & (steps - margin > below)
    sure &= (below >= 2.0 ** (bits - 1)) & (above < 2.0**bits)
    integers = below.nan_to_num(0.0, posinf=0.0, neginf=0.0).clamp(0, 2.0**bits).long() | 1
    return torch.where(values < 0, -integers, integers), top.long() - bits, sure


def _precise(value: Any, bits: int) -> tuple[int, int]:
    """Return integer and exponent of an mpmath real."""
    negative, mantissa, exponent, length = value._mpf_
    mantissa = int(mantissa)
    if mantissa == 0:
        return 0, 0
    shift = length - bits
    if shift > 0:
        floor = mantissa >> shift
        magnitude = floor | (floor << shift != mantissa)
    else:
        magnitude = mantissa << -shift
    return -magnitude if negative else magnitude, exponent + shift


def _limit(value: float, bits: int) -> tuple[int, int]:
    """Return integer and exponent of the result at a pole or for an infinite operand."""
    if abs(value) == float("inf"):
        return (1 if value > 0 else -1) << (bits - 1), HIGHEST_PLACE - bits
    return _precise(PRECISE.context.mpf(value), bits)
