"""The rule of blocks in rational arithmetic, written apart from the formats.

Values come out of lists of all numbers of an element and of a scale; the nearest one is chosen, and
of two the one with an even pattern. Nothing of `mase_hw.formats` is used but the fields.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import cache

Numbers = dict[int, Fraction]


def integers(width: int) -> Numbers:
    """Return the elements of MXINT by their bits, the most negative one left out."""
    most = 2 ** (width - 1) - 1
    return {code % 2**width: Fraction(code, 2 ** (width - 2)) for code in range(-most, most + 1)}


@cache
def floats(exponent_width: int, mantissa_width: int) -> Numbers:
    """Return all floats by their bits: denormals, both zeros, and neither infinities nor NaN."""
    bias, found = 2 ** (exponent_width - 1) - 1, {}
    for sign in (0, 1):
        for exponent in range(2**exponent_width):
            for mantissa in range(2**mantissa_width):
                part = Fraction(mantissa, 2**mantissa_width) + (exponent > 0)
                value = part * Fraction(2) ** (max(exponent, 1) - bias)
                code = (sign << exponent_width | exponent) << mantissa_width | mantissa
                found[code] = -value if sign else value
    return found


def nearest(numbers: Numbers, value: Fraction) -> int:
    """Return the bits of the nearest number; a zero has the sign of what was rounded."""
    distance = min(abs(value - item) for item in numbers.values())
    near = [code for code, item in numbers.items() if abs(value - item) == distance]
    even = [code for code in near if code % 2 == 0] or near
    sign = 1 << (max(numbers).bit_length() - 1)
    same = [code for code in even if bool(code & sign) == (value < 0)]
    return (same or even)[0]


def power_of(value: Fraction) -> int:
    power = 0
    while Fraction(2) ** (power + 1) <= value:
        power += 1
    while Fraction(2) ** power > value:
        power -= 1
    return power


def encoded(
    elements: Numbers, low: int, high: int, block: Sequence[Fraction]
) -> tuple[int, list[int]]:
    """Return the exponent of a block, and the bits of its elements."""
    largest = max(map(abs, block))
    emax = power_of(max(elements.values()))
    shared = low if not largest else min(max(power_of(largest) - emax, low), high)
    return shared, [nearest(elements, value / Fraction(2) ** shared) for value in block]


@cache
def float_scale(largest: Fraction) -> Fraction:
    """Return the scale of a block of NVFP4, without a tensor's scale, with such a magnitude."""
    scales = {code: item for code, item in floats(4, 3).items() if item > 0 and code != 127}
    wanted = largest / max(floats(2, 1).values())
    return max(scales[nearest(scales, wanted)], Fraction(1, 64))


def float_scaled(block: Sequence[Fraction]) -> tuple[Fraction, list[int]]:
    """Return the scale of a block of NVFP4 without a tensor's scale, and its elements' bits."""
    scale = float_scale(max(map(abs, block)))
    return scale, [nearest(floats(2, 1), value / scale) for value in block]


def packed(width: int, scale: int, bits: Sequence[int]) -> int:
    """Return a block as it streams: the first element in the low bits, above all a scale."""
    word = scale
    for element in reversed(bits):
        word = word << width | element
    return word
