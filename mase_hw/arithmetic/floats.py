"""Exact arithmetic on floats, and on fixed point beside them.

Sums, differences and products are exact and rounded once, as the result's format says. NaN goes
through; `inf - inf` and `0 * inf` are NaN. Where the result's format has no NaN it becomes the
largest number, and where it has no infinity, or saturates, infinities do, too. Zero has the sign
that IEEE 754-2019, section 6.3, gives it: that of both operands of a sum, plus where they
differ; the product of the signs; that of a nonzero result that is rounded to zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mase_hw.arithmetic.scaled import INFINITE_EXPONENT, Scaled
from mase_hw.errors import UnsupportedError
from mase_hw.formats import FloatFormat, Format
from mase_hw.formats.fixed import Fixed
from mase_hw.formats.scaled_integer import ScaledInteger

# What a function is rounded to before it is divided by a real scale.
REAL_SCALE_BITS = 38


@dataclass(frozen=True)
class Decoded:
    """The elements of a float or fixed-point tensor.

    Attributes:
        values: the numbers; an infinity is `2**INFINITE_EXPONENT` with its sign.
        is_nan: true where there is no number.
        is_infinite: true for infinities.
        is_negative: the signs, which zero has, too.
    """

    values: Scaled
    is_nan: Tensor
    is_infinite: Tensor
    is_negative: Tensor


def decode(number: Format, codes: Tensor) -> Decoded:
    """Return the elements of a float or fixed-point format."""
    if isinstance(number, Fixed):
        values = Scaled(codes, torch.full_like(codes, -number.frac_width))
        never = torch.zeros_like(codes, dtype=torch.bool)
        return Decoded(values, never, never, codes < 0)
    layout = float_format(number).layout
    negative = codes & layout.sign != 0
    special = codes & (layout.sign - 1) > layout.maximum_code
    infinite = special & (codes & (layout.sign - 1) == layout.infinity_code)
    infinite &= torch.tensor(layout.specials == "ieee")
    integers, exponents = layout.scaled(codes)
    unit = torch.where(negative, -1, 1)
    values = Scaled(
        torch.where(infinite, unit, integers), torch.where(infinite, INFINITE_EXPONENT, exponents)
    )
    return Decoded(values, special & ~infinite, infinite, negative)


def encode(number: Format, values: Scaled, is_nan: Tensor, is_negative: Tensor) -> Tensor:
    """Return the codes of a float or fixed-point format; `is_negative` is the sign of zeros."""
    codes = number.from_scaled(values.integers, values.exponents)
    if isinstance(number, FloatFormat):
        zero = (values.integers == 0) & is_negative
        codes = torch.where(zero, number.layout.sign, codes)
    return torch.where(is_nan, nan_code(number), codes)


def combine(left: Decoded, right: Decoded, operation: str, guard: int, result: Format) -> Tensor:
    """Return the codes of a sum, difference or product.

    Args:
        left: the first operand.
        right: the second one.
        operation: `add`, `subtract` or `multiply`.
        guard: the guard bits of sums.
        result: the format of the codes.
    """
    values = left.values.combine(right.values, operation, guard)
    flipped = right.is_negative != torch.tensor(operation == "subtract")
    if operation == "multiply":
        left_zero, right_zero = left.values.integers == 0, right.values.integers == 0
        undefined = (left.is_infinite & right_zero) | (left_zero & right.is_infinite)
        negative = left.is_negative ^ right.is_negative
    else:
        undefined = left.is_infinite & right.is_infinite & (left.is_negative != flipped)
        negative = left.is_negative & flipped
    return encode(result, values, undefined | left.is_nan | right.is_nan, negative)


def nan_code(number: Format) -> int:
    """Return the code that stands for NaN: the largest number where there is no NaN.

    As conversions do on GPUs: NVIDIA, "PTX ISA" 8.6, section 9.7.9, instruction cvt.
    """
    if isinstance(number, Fixed):
        return number.maximum_code
    if isinstance(number, ScaledInteger):
        return number.code_range[1]
    layout = float_format(number).layout
    return layout.maximum_code if layout.nan_code is None else layout.nan_code


def overflow_code(number: Format) -> int:
    """Return the magnitude that stands for overflow in a result."""
    if not isinstance(number, FloatFormat):
        return 0
    layout = number.layout
    saturates = layout.saturate or layout.specials == "none"
    return layout.maximum_code if saturates else layout.infinity_code


def has_infinity(number: Format) -> bool:
    """True if a format has infinities."""
    return isinstance(number, FloatFormat) and number.layout.specials == "ieee"


def float_format(number: Format) -> FloatFormat:
    """Return a float format.

    Raises:
        UnsupportedError: when it is another one.
    """
    if not isinstance(number, FloatFormat):
        raise UnsupportedError(f"{number} is no float")
    return number


def integer_bits(number: Format) -> int:
    """Return the bits of an element's integer, sign included."""
    if isinstance(number, Fixed):
        return number.width + (not number.signed)
    return float_format(number).layout.mantissa_width + 2


def precision_bits(number: Format) -> int:
    """Return the bits of the largest result's significand.

    Steps of a real scale lie between all numbers of so many bits: those that are `2**-20` of a step
    apart are told from each other.
    """
    if isinstance(number, Fixed):
        return number.width
    if isinstance(number, ScaledInteger):
        return min(number.width + 20, REAL_SCALE_BITS)
    return float_format(number).layout.mantissa_width + 1
