"""Exact sums divided by a whole number, rounded once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mase_hw.arithmetic.carriers import fixed_of
from mase_hw.formats.fixed import Fixed


@dataclass(frozen=True)
class Quotient:
    """`codes * 2**-fraction / divisor` in a result format.

    Attributes:
        fraction: fraction bits of the numerators.
        divisor: a whole number from 1.
        result: format of the quotients.
    """

    fraction: int
    divisor: int
    result: Fixed

    @property
    def shift(self) -> int:
        """Factors of two of the divisor, which only move the point."""
        return (self.divisor & -self.divisor).bit_length() - 1

    @property
    def odd(self) -> int:
        """The divisor without its factors of two."""
        return self.divisor >> self.shift

    @property
    def _lift(self) -> int:
        """Bits by which numerators are shifted left, for a quotient bit below the half."""
        return max(0, self.result.frac_width + 1 - self.fraction - self.shift)

    def width(self, numerator_bits: int) -> int:
        """Return the widest intermediate value in bits."""
        return numerator_bits + (0 if self.odd == 1 else self._lift + 3)

    def __call__(self, codes: Tensor) -> Tensor:
        """Return result codes of int64 numerators."""
        fraction = self.fraction + self.shift
        if self.odd == 1:
            return self.result.from_fixed(codes, fraction)
        lifted = codes << self._lift
        floor = torch.div(lifted, self.odd, rounding_mode="floor")
        rest = (lifted != floor * self.odd).to(torch.int64)
        return self.result.from_fixed((floor << 1) | rest, fraction + self._lift + 1)


def exact_quotient(data: Fixed, factor: int, divisor: int, fraction: int) -> Fixed | None:
    """Return a format of quotients from which rounding once more gives the correct rounding.

    A quotient `n / divisor` that is not a multiple of `2**-fraction`, such as a number that is
    rounded to or a half, is at least `2**-fraction / divisor` from each of them: the neighbour that
    is half a step of `2**-fraction / 2**bits(divisor)` away lies on the same side.

    Args:
        data: format of the elements of a sum.
        factor: quotients are at most so many times as large.
        divisor: what sums are divided by.
        fraction: fraction bits of what is rounded to, and one more.

    Returns:
        The format, None where there is none.
    """
    shift = (divisor & -divisor).bit_length() - 1
    places = data.frac_width + shift
    if divisor >> shift > 1:
        places = max(data.frac_width, fraction) + divisor.bit_length()
    width = data.width + (not data.signed) + (factor - 1).bit_length()
    return fixed_of(width + places - data.frac_width, places)
