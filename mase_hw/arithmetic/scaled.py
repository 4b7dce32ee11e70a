"""Exact reals `integers * 2**exponents`, element by element, for formats of wide range.

The sum of two such numbers may take hundreds of bits. What lies more than `guard` bits below the
lowest bit of the operand of larger exponent is rounded to odd: where anything is lost, the last
bit is one. Rounding the sum once more to at most `guard - 2` significant bits then gives the same
as rounding the exact sum (Boldo and Melquiond, "Emulation of a FMA and Correctly Rounded Sums:
Proved Algorithms Using Rounding to Odd", IEEE Transactions on Computers 57(4), 2008), for every
rounding mode.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mase_hw.formats import BlockFormat, FloatElement

OPERATIONS = ("add", "subtract", "multiply")
# Exponents of 12 bits in hardware: infinities lie above every number, zero below.
PLACE_BITS = 12
INFINITE_EXPONENT = 1000
ZERO_EXPONENT = -1024
MAX_BITS = 62


@dataclass(frozen=True)
class Scaled:
    """Reals `integers * 2**exponents`, int64 of one shape."""

    integers: Tensor
    exponents: Tensor

    def combine(self, other: Scaled, operation: str, guard: int) -> Scaled:
        """Return the sum, difference or product; sums are rounded to odd as `guard` says."""
        if operation == "multiply":
            return Scaled(self.integers * other.integers, self.exponents + other.exponents)
        left, right = self._placed(), other._placed()
        high = torch.maximum(left, right)
        first = shift_to_odd(self.integers << guard, high - left)
        second = shift_to_odd(other.integers << guard, high - right)
        return Scaled(first + second if operation == "add" else first - second, high - guard)

    def _placed(self) -> Tensor:
        """Return the exponents, that of zero below all others."""
        return torch.where(self.integers == 0, ZERO_EXPONENT, self.exponents)


def shift_to_odd(integers: Tensor, shift: Tensor) -> Tensor:
    """Return `integers / 2**shift` rounded to odd; shift from 0."""
    shift = shift.clamp(max=63)
    floor = integers >> shift
    # At 63 the floor is the sign, which shifts back to itself or to the lowest number.
    return floor | ((floor << shift) != integers).to(torch.int64)


def combined_bits(operation: str, first_bits: int, second_bits: int, guard: int) -> int:
    """Return the bits of a result, sign included, of operands of so many bits."""
    if operation == "multiply":
        return first_bits + second_bits
    return max(first_bits, second_bits) + guard + 1


def guard_bits(first_bits: int, second_bits: int, precision_bits: int) -> int:
    """Return the guard bits that keep sums correct to `precision_bits` significant bits.

    Bits are lost only where exponents differ by more than the guard; the larger operand then is at
    least `2**guard` units, the other one at most half of it.
    """
    return max(first_bits, second_bits, precision_bits + 2)


def decode(number: BlockFormat, codes: Tensor) -> Scaled:
    """Return the elements of blocks."""
    return Scaled(*number.significands(codes))


def significand_bits(number: BlockFormat) -> int:
    """Return the bits of an element's significand, sign included."""
    element = number.element
    return element.mantissa_width + 2 if isinstance(element, FloatElement) else element.width


def add(total: Scaled, term: Scaled) -> Scaled:
    """Return sums of two numbers; the one of smaller exponent is rounded down to the other's."""
    high = torch.maximum(total.exponents, term.exponents)
    first = total.integers >> (high - total.exponents).clamp(max=63)
    second = term.integers >> (high - term.exponents).clamp(max=63)
    return Scaled(first + second, high)
