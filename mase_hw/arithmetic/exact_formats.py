"""Formats of one step that hold given numbers exactly, or in steps that are much finer.

Fixed point and integers with a scale have steps: numbers are whole multiples of one, or of one for
each channel. Everything else has none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TypeGuard

import torch
from torch import Tensor

from mase_hw.arithmetic.carriers import fixed_of
from mase_hw.arithmetic.requantize import scales
from mase_hw.formats import Format, make_format
from mase_hw.formats.fixed import MAX_EXACT_BITS, Fixed
from mase_hw.formats.scaled_integer import WIDEST_BITS, ScaledInteger

# Codes that are tried one by one.
MOST_BITS = 16
# Bits of a constant that is held exactly, and of what is compared with thresholds.
CONSTANT_BITS, COMPARED_BITS = 32, 32
# Of what is computed of numbers that are approximated, and of an operand of what approximates.
APPROXIMATED_BITS, OPERAND_BITS = 32, 48


def has_steps(number: object) -> TypeGuard[Fixed | ScaledInteger]:
    """True for a format whose numbers are multiples of a step, or of one for each channel."""
    return isinstance(number, Fixed | ScaledInteger)


def has_scale(number: object) -> TypeGuard[ScaledInteger]:
    """True for integers with one real scale."""
    return isinstance(number, ScaledInteger) and len(number.scales) == 1


def has_codes_around_zero(number: object) -> TypeGuard[ScaledInteger]:
    """True for integers with real scales and no zero points."""
    return isinstance(number, ScaledInteger) and number.centred


def is_binary(number: object) -> TypeGuard[Fixed]:
    """True for fixed point, whose step is a power of two."""
    return isinstance(number, Fixed)


def ends_in_steps(number: Format) -> tuple[int, int]:
    """Return the least and the largest number of a format, in its steps."""
    ends = number.encode(torch.tensor([-math.inf, math.inf]))
    low, high = number.significands(ends)[0].tolist()
    return low, high


def multiples(step: Fraction, width: int, *, binary: bool) -> Format | None:
    """Return integers with a sign in multiples of a step; None for too many bits.

    Args:
        step: the step.
        width: bits of the integers.
        binary: whether to return fixed point, of a step that is a power of two.
    """
    width = max(2, width)
    if binary:
        return fixed_of(width, round(-math.log2(step)))
    return None if width > WIDEST_BITS else ScaledInteger(width, float(step))


def finer(levels: Fixed | ScaledInteger, bits: int) -> Format:
    """Return fixed point over the range of some levels, a step of which has so many bits."""
    ends = levels.decode(levels.encode(torch.tensor([-math.inf, math.inf]))).tolist()
    fraction = bits - math.frexp(float(min(scales(levels))))[1] + 1
    return Fixed(2 + math.frexp(max(map(abs, ends)))[1] + fraction, fraction)


def reaching(largest: float, width: int) -> Format:
    """Return fixed point of a width that reaches a number."""
    return Fixed(width, width - 2 - math.frexp(largest or 1.0)[1])


def shortened(number: Fixed) -> Fixed:
    """Return fixed point over the range of another one, of few enough bits to be rounded later."""
    less = max(0, number.width - APPROXIMATED_BITS)
    return Fixed(number.width - less, number.frac_width - less, number.signed)


def most_scale_bits(number: ScaledInteger, *, approximates: bool) -> int:
    """Return the bits of the widest scale whose multiples hardware takes of the steps of a format.

    Args:
        number: integers with one scale.
        approximates: whether what takes them computes an approximation.
    """
    return (OPERAND_BITS if approximates else MAX_EXACT_BITS) - number.width - 3


def compared(bounds: Tensor) -> Format:
    """Return the format of sums that are compared with bounds, where they have none."""
    whole_bits = max(0, math.frexp(float(bounds.abs().max()))[1])
    return Fixed(COMPARED_BITS, COMPARED_BITS - 2 - whole_bits, rounding="floor")


def whole_numbers(width: int) -> Format:
    """Return integers with a sign."""
    return Fixed(width, 0)


def in_whole_steps(number: ScaledInteger) -> ScaledInteger:
    """Return integers with the codes of a format around zero, of a step of one."""
    return ScaledInteger(number.width, 1.0, 0, number.signed, number.symmetric)


def common_grid(numbers: Sequence[Format]) -> Format | None:
    """Return integers that are the values of several formats; None where they take too many bits.

    Args:
        numbers: fixed point, or integers with one scale each.
    """
    if not all(has_steps(item) for item in numbers):
        return None
    if any(len(scales(item)) > 1 for item in numbers):
        return None
    steps = [scales(item)[0] for item in numbers]
    # Whole multiples of the one unit that divides all of them.
    unit = Fraction(
        math.gcd(*(step.numerator for step in steps)),
        math.lcm(*(step.denominator for step in steps)),
    )
    unit = Fraction(
        math.gcd(*(int(step / unit) for step in steps)) * unit.numerator, unit.denominator
    )
    reach = max(
        max(map(abs, ends_in_steps(item))) * int(step / unit)
        for item, step in zip(numbers, steps, strict=True)
    )
    if Fraction(float(unit)) != unit:
        return None
    binary = unit.numerator == 1 and unit.denominator & (unit.denominator - 1) == 0
    return multiples(unit, reach.bit_length() + 1, binary=binary)


def exact_constant(values: Tensor, formats: Iterable[Format]) -> Format | None:
    """Return the narrowest format that holds real constants exactly; None for too many bits.

    Args:
        values: the constants.
        formats: those of the streams beside them.
    """
    work = values.detach().float().double().reshape(-1)
    if not work.numel() or not bool(work.isfinite().all()):
        return None
    fixed_point = all(isinstance(item, Fixed) for item in formats)
    sizes = sorted({abs(item) for item in work.tolist() if item})
    if not fixed_point and len(sizes) == 1:
        return ScaledInteger(2, sizes[0])
    for fraction in range(CONSTANT_BITS + 1):
        steps = work * 2.0**fraction
        width = max(2, int(steps.abs().max()).bit_length() + 1)
        if torch.equal(steps, steps.round()) and width <= CONSTANT_BITS:
            unit = 2.0**-fraction
            return Fixed(width, fraction) if fixed_point else ScaledInteger(width, unit)
    return None


def holds(wider: Format, number: Format) -> bool:
    """True where every value of a format is one of a wider format."""
    if wider == number:
        return True
    # Codes are listed in one dimension, along which blocks lie then.
    wider, number = (
        make_format({**item.to_dict(), "axis": -1}) if hasattr(item, "blocking") else item
        for item in (wider, number)
    )
    if has_steps(number) and has_steps(wider):
        ratios = [step / scales(wider)[0] for step in scales(number)]
        if len(scales(wider)) > 1 or any(ratio.denominator > 1 for ratio in ratios):
            return False
    if number.bits_per_element > MOST_BITS:
        return False
    low, high = number.encode(torch.tensor([-math.inf, math.inf])).tolist()
    if low > high or len(getattr(number, "scales", (1,))) > 1:
        return False
    values = number.decode(torch.arange(low, high + 1))
    return torch.equal(wider.round_values(values), values)


def described(number: Format | None) -> str:
    """Return a format with the scale and the zero point that integers have."""
    if not has_scale(number):
        return "real numbers" if number is None else str(number)
    return f"{number} of steps of {number.scale:.6g} around {number.zero_point}"
