"""Exact sums divided by a whole number, rounded once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

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
