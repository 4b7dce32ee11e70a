"""Integers with a real scale in hardware: exact sums of integers, requantised once.

The sums of `(data - zero) * (weight - zero)` and of the bias are exact, in units of the product of
the scales of data and weight; the bias is rounded to that unit, to nearest even. A result is
`bound(round(sum * m * 2**-s) + zero)`, to nearest even. `m * 2**-s` stands for the product of the
scales over the scale of the result, for each channel of the weight: `m` has `multiplier_bits` bits,
so that its relative error is at most `2**-multiplier_bits`. A result of `width` bits that does not
saturate is then off the exact quotient, before it is rounded, by at most `2**-10` steps
(`2**(width - 24)` beyond 14 bits), and by half a unit of the bias. Fixed point counts as integers
with a scale that is a power of two.

Source: Jacob et al. (2018), arXiv:1712.05877, section 2.2, with one rounding instead of two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction

import torch
from torch import Tensor

from mase_hw.formats import Format
from mase_hw.formats.fixed import Fixed
from mase_hw.formats.scaled_integer import ScaledInteger
from mase_hw.geometry.tensor import TensorSpec

MOST_MULTIPLIER_BITS = 24
# Bits of half a factor whose products are shortened.
HALF_BITS = 31
SHIFT_BITS = 6


def is_scaled(spec: TensorSpec) -> bool:
    """True if a tensor is of integers with a real scale."""
    return isinstance(spec.format, ScaledInteger)


def scales(number: Format) -> list[Fraction]:
    """Return the scale of every channel, or the one scale."""
    if isinstance(number, ScaledInteger):
        return [Fraction(scale) for scale in number.scales]
    assert isinstance(number, Fixed)
    return [Fraction(2) ** -number.frac_width]


def scale_bits(number: Format) -> int:
    """Return the bits of a multiplier that is the one scale of a format, times a power of two."""
    numerator = number.real_scale.numerator
    return (numerator // (numerator & -numerator)).bit_length()


def multiplier_bits(result: Format) -> int:
    """Return the bits of the multipliers of a result."""
    width = result.width if isinstance(result, ScaledInteger | Fixed) else MOST_MULTIPLIER_BITS
    return min(MOST_MULTIPLIER_BITS, width + 10)


def dyadic(ratio: Fraction, bits: int) -> tuple[int, int]:
    """Return `(m, s)`, `m` of `bits` bits, with `m * 2**-s` nearest to a positive ratio."""
    exponent = ratio.numerator.bit_length() - ratio.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > ratio
    shift = bits - 1 - exponent
    multiplier = round(ratio * Fraction(2) ** shift)
    return (multiplier >> 1, shift - 1) if multiplier == 1 << bits else (multiplier, shift)


def whole(number: Format) -> Fixed:
    """Return integers that hold the steps of a format."""
    if isinstance(number, ScaledInteger):
        off = not number.centred
        return Fixed(number.width + off, 0, number.signed or off)
    assert isinstance(number, Fixed)
    return Fixed(number.width, 0, number.signed)


def in_steps(number: Format) -> Format:
    """Return the format whose values are the steps of a format."""
    return replace(number, frac_width=0) if isinstance(number, Fixed) else number.unscaled()


def operand_problems(name: str, spec: TensorSpec) -> list[str]:
    """Return why hardware has no scale for each channel of a stream; empty when there is one."""
    if isinstance(spec.format, ScaledInteger) and isinstance(spec.format.scale, tuple):
        return [f"{name} is {spec.format}; only a weight may have a scale for each channel"]
    return []


def cast_multiplier(operand: Format, result: Format, bits: int = 0) -> Mapping[str, int]:
    """Return the multiplier of a cast from or to a real scale, as parameters; none for others.

    Args:
        operand: its format.
        result: format of the result.
        bits: of the multiplier; as many as a layer's when 0.
    """
    ratio = operand.real_scale / result.real_scale
    if ratio == 1:
        return {}
    bits = bits or multiplier_bits(result)
    factor, shift = dyadic(ratio, bits)
    return {"MULTIPLIER_WIDTH": bits, "MULTIPLIER": factor, "MULTIPLIER_SHIFT": shift}


def step_quotient(number: Format, scale: float, bits: int = 0) -> tuple[int, int]:
    """Return multiplier and shift that take steps of a format to steps of a scale; 1 for its own.

    Args:
        number: the format.
        scale: of the steps.
        bits: of the multiplier; as many as a layer's when 0.
    """
    ratio = number.real_scale / Fraction(scale)
    if ratio == 1:
        return 1, 0
    factor, shift = dyadic(ratio, bits or multiplier_bits(number))
    zeros = min((factor & -factor).bit_length() - 1, max(shift, 0))
    return factor >> zeros, shift - zeros


def cast_reference(operand: Format, result: Format, bits: int = 0) -> Callable[[Tensor], Tensor]:
    """Return codes -> codes of a cast, with the multiplier of a real scale of so many bits."""
    parameters = cast_multiplier(operand, result, bits)
    factor, shift = parameters.get("MULTIPLIER", 1), parameters.get("MULTIPLIER_SHIFT", 0)
    unit = result.unscaled()
    less = factor.bit_length() + operand.encoding.width + 1 - result.exact_bits

    def compute(codes: Tensor) -> Tensor:
        integers, exponents = operand.significands(codes)
        if less <= 0:
            return unit.from_scaled(integers * factor, exponents - shift)
        kept = shortened_products(integers, torch.tensor(factor), less)
        return unit.from_scaled(kept, exponents - shift + less)

    return compute


def shortened_products(first: Tensor, second: Tensor, less: int) -> Tensor:
    """Return products of up to 92 bits without their lowest bits.

    The lowest bit that is left is 1, too, where any of those is: a number between two that are
    twice as far apart rounds as the product does.

    Args:
        first: int64 of at most 62 bits.
        second: int64 from zero on, likewise.
        less: the bits that are left out, 1 to `HALF_BITS`.
    """
    mask = (1 << HALF_BITS) - 1
    high, low, above, below = first >> HALF_BITS, first & mask, second >> HALF_BITS, second & mask
    least = low * below
    kept = (high * above << (2 * HALF_BITS - less)) + (least >> less)
    kept += high * below + low * above << (HALF_BITS - less)
    return kept | (least & ((1 << less) - 1) != 0)
