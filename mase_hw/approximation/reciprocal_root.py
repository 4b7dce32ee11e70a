"""Reciprocals of square roots of whole numbers, by a table and at most one step of Newton's.

For `w` from 1 on, in integers, with `T = fraction - 1`:

    p = floor(log2 w),    k = p >> 1,    b = the bits of w below its leading one,
    r = table[(p & 1) << T | the leading T bits of b],

so that `r * 2**(-fraction - k)` is about `1 / sqrt(w)`. With `m = 2**(p & 1) * (1 + j / 2**T)` the
table is `1 / sqrt(m + 2**(p & 1) / 2**(T + 1))`, rounded, of `fraction` bits. Where `T` exceeds
`MAX_INDEX_BITS` it is `ceil(fraction / 2)` instead, words have `W = T + 2` bits, and one step
follows, `M = fraction + 1` bits of `b` being in `m`:

    q = (r * r * m) >> 2 W,    r' = (r * ((3 << M) - q)) >> (W + M + 1 - fraction).

Table and step are those of Ercegovac and Lang, "Digital Arithmetic" (2004), section 7.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import isqrt

import torch
from torch import Tensor

MAX_INDEX_BITS = 9


@dataclass(frozen=True)
class ReciprocalRoot:
    """The reciprocal square root of numbers of at most so many bits.

    Attributes:
        fraction: fraction bits of the results, which are at most two of the last off.
    """

    fraction: int

    @property
    def has_step(self) -> bool:
        """Whether a step follows the table."""
        return self.fraction - 1 > MAX_INDEX_BITS

    @property
    def index_bits(self) -> int:
        """Binary logarithm of half of the table's words."""
        return (self.fraction + 1) // 2 if self.has_step else self.fraction - 1

    @property
    def word_fraction(self) -> int:
        """Fraction bits of the table's words, which are below one."""
        return self.index_bits + 2 if self.has_step else self.fraction

    @property
    def mantissa_bits(self) -> int:
        """Bits below the leading one that count."""
        return self.fraction + 1 if self.has_step else self.index_bits

    @cached_property
    def words(self) -> tuple[int, ...]:
        """The words of the table of reciprocal roots."""
        return tuple(
            self._word(odd, index) for odd in (0, 1) for index in range(1 << self.index_bits)
        )

    def _word(self, odd: int, index: int) -> int:
        """Return `2**word_fraction / sqrt(2**odd * (1 + (index + 1/2) / 2**index_bits))`."""
        # Of a whole square root twice as large, rounded down; an exact half does not occur.
        below = self.index_bits + 1
        divisor = ((1 << below) + 2 * index + 1) << odd
        twice = isqrt((1 << (2 * self.word_fraction + 2 + below)) // divisor)
        return (twice + 1) >> 1

    def evaluate(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mantissas and the places `k` of int64 numbers from 1 on."""
        places = _leading(numbers)
        mantissa, index_bits = self.mantissa_bits, self.index_bits
        shift = places - mantissa
        bits = torch.where(shift > 0, numbers >> shift.clamp(min=0), numbers << -shift.clamp(max=0))
        odd = places & 1
        below = bits - (1 << mantissa)
        index = (odd << index_bits) + (below >> (mantissa - index_bits))
        estimate = torch.tensor(self.words)[index]
        if self.has_step:
            square = (estimate * estimate * (bits << odd)) >> (2 * self.word_fraction)
            rest = (3 << mantissa) - square
            estimate = (estimate * rest) >> (self.word_fraction + mantissa + 1 - self.fraction)
        return estimate, places >> 1


def _leading(numbers: Tensor) -> Tensor:
    """Return the place of the leading one of int64 numbers from 1 on."""
    high = numbers >> 31
    top = torch.frexp(high.double()).exponent.long() + 30
    bottom = torch.frexp((numbers & ((1 << 31) - 1)).double()).exponent.long() - 1
    return torch.where(high > 0, top, bottom)
