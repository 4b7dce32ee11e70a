"""Scalars that hold every value of another format exactly, so that operators can compute with it.

A block format has a float, in which each element has a scale of its own: significands of an
element's bits, exponents from the smallest element in the smallest scale to the largest in the
largest. A float, and a block of a small range, has fixed point, whose unit is the smallest number.
Casts to such a format lose nothing; the sign of zero is lost in fixed point.
"""

from __future__ import annotations

from fractions import Fraction

import torch
from torch import Tensor

from mase_hw.errors import FormatError
from mase_hw.formats import BlockFormat, FloatElement, FloatFormat, Format, make_format
from mase_hw.formats.fixed import MAX_EXACT_BITS, MAX_FRAC_WIDTH, MIN_WIDTH_BITS, Fixed
from mase_hw.formats.scaled_integer import ScaledInteger


def exact_float(number: Format) -> FloatFormat | None:
    """Return a float that holds every value of floats or blocks; None where there is none."""
    if isinstance(number, FloatFormat):
        return number
    if not isinstance(number, BlockFormat) or not number.scales_are_powers:
        return None
    element, scale = number.element, number.scale
    if isinstance(element, FloatElement):
        lowest, mantissa = element.lowest_exponent, max(1, element.mantissa_width)
        highest = max(1, (1 << element.exponent_width) - 1) - element.bias
    else:
        # Also the most negative integer.
        lowest, mantissa, highest = 0, max(1, element.width - 2), 1
    lowest, highest = lowest - scale.bias, highest + scale.codes - 1 - scale.bias
    exponent_width = (highest - lowest + 1).bit_length()
    try:
        carrier = make_format(
            {
                "name": "minifloat_denorm",
                "width": 1 + exponent_width + mantissa,
                "exponent_width": exponent_width,
                "exponent_bias": 1 - lowest,
            }
        )
    except FormatError:
        return None
    assert isinstance(carrier, FloatFormat)
    return carrier


def exact_bits(number: Format) -> tuple[int, int] | None:
    """Return the width and the fraction bits of fixed point that holds every value of a format.

    None for a format whose values have no common unit that is a power of two.
    """
    if isinstance(number, Fixed):
        return number.width + (not number.signed), number.frac_width
    if isinstance(number, FloatFormat):
        layout = number.layout
        above = max(1, (1 << layout.exponent_width) - 1) - 1
        return layout.mantissa_width + 2 + above, -layout.lsb_exponent
    if isinstance(number, BlockFormat) and number.scales_are_powers:
        element, scale = number.element, number.scale
        width = element.width
        if isinstance(element, FloatElement):
            width = element.mantissa_width + 2 + max(1, (1 << element.exponent_width) - 1) - 1
        return width + scale.codes - 1, scale.bias - element.lsb_exponent
    fraction = number.integer_fraction if _one_scale(number) == 1 else None
    if fraction is None:
        return None
    low, high = number.encoding.limits
    return max(abs(low), abs(high)).bit_length() + 1, fraction


def _one_scale(number: Format) -> Fraction | None:
    """The one real scale of all values; None where channels have scales of their own."""
    try:
        return number.real_scale
    except FormatError:
        return None


def exact_fixed(number: Format) -> Fixed | None:
    """Return fixed point that holds every value of a format; None where it takes too many bits."""
    if isinstance(number, Fixed):
        return number
    needed = exact_bits(number)
    if needed is None:
        return None
    width, fraction = max(MIN_WIDTH_BITS, needed[0]), needed[1]
    return fixed_of(width, fraction)


def exact_fixed_of(number: Format, values: Tensor) -> Fixed | None:
    """Return the narrowest fixed point that holds some values as a format rounds them.

    None where it takes too many bits, or the values have no unit that is a power of two.
    """
    scale = _one_scale(number)
    if scale is None or scale.numerator.bit_length() + number.bits_per_element > MAX_EXACT_BITS:
        return None
    if not isinstance(number, ScaledInteger) and exact_bits(number) is None:
        return None
    integers, exponents = number.significands(number.encode(values))
    integers = integers * scale.numerator
    exponents = exponents - (scale.denominator.bit_length() - 1)
    counted = integers != 0
    if not bool(counted.any()):
        return Fixed(MIN_WIDTH_BITS, 0)
    integers, exponents = integers[counted], exponents[counted]
    zeros = torch.frexp((integers & -integers).double()).exponent.long() - 1
    tops = torch.frexp(integers.double()).exponent.long() + exponents
    lowest = int((exponents + zeros).min())
    return fixed_of(int(tops.max()) - lowest + 1, -lowest)


def fixed_of(width: int, fraction: int) -> Fixed | None:
    """Return fixed point of so many bits; None where there is none."""
    if width > MAX_EXACT_BITS or abs(fraction) > MAX_FRAC_WIDTH:
        return None
    return Fixed(max(MIN_WIDTH_BITS, width), fraction)
