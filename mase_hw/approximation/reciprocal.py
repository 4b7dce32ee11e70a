"""Reciprocals of whole numbers, by a table and at most one step of Newton's iteration.

For `s` from `2**point` on, in integers, with `k = floor(log2 s) - point` and `T = fraction - 1`:

    n = s << (growth - k),    i = the T bits of n below its leading one,    r = table[i],
    u = r >> k,

so that `u * 2**-fraction` is about `2**point / s`. `table[i]` is `2**T / (2**T + i + 1/2)` of
`fraction` bits, rounded; `table[0]` is exactly one, so that powers of two have exact reciprocals.
Where `T` exceeds `MAX_INDEX_BITS` it is `ceil(fraction / 2)` instead, words have `W = T + 2`
fraction bits, and one step follows, `m` being the leading `M = fraction + 1` bits of `n` below its
leading one, with that one:

    d = ((2 << (M + W)) - m * r) >> W,    u = (r * d) >> (W + M - fraction + k).

`d - (1 << M)` takes `M - T + 1` bits with its sign, so that hardware keeps no more of the product.
The step doubles the number of correct bits (Flynn, "On Division by Functional Iteration", IEEE
Transactions on Computers C-19(8), 1970); that of the table is from Das Sarma and Matula, "Measuring
the Accuracy of ROM Reciprocal Tables", IEEE Transactions on Computers 43(8), 1994.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

MAX_INDEX_BITS = 10


@dataclass(frozen=True)
class Reciprocal:
    """The reciprocal of numbers from `2**point` to `2**(point + growth)`.

    Attributes:
        point: fraction bits of the numbers; with `growth` at least `fraction + 1`.
        growth: by how many places their leading bit may be above the point.
        fraction: fraction bits of the reciprocals, which are at most two of the last off.
    """

    point: int
    growth: int
    fraction: int

    @property
    def has_step(self) -> bool:
        """Whether a step follows the table."""
        return self.fraction - 1 > MAX_INDEX_BITS

    @property
    def index_bits(self) -> int:
        """Binary logarithm of the table's words."""
        return (self.fraction + 1) // 2 if self.has_step else self.fraction - 1

    @property
    def word_fraction(self) -> int:
        """Fraction bits of the table's words, which have one bit more."""
        return self.index_bits + 2 if self.has_step else self.fraction

    @cached_property
    def words(self) -> tuple[int, ...]:
        """The words of the table of reciprocals."""
        count, one = 1 << self.index_bits, 1 << self.word_fraction
        # Rounded to nearest, in whole numbers.
        rest = [
            (4 * one * count + 2 * count + 2 * index + 1) // (2 * (2 * count + 2 * index + 1))
            for index in range(1, count)
        ]
        return (one, *rest)

    def evaluate(self, numbers: Tensor) -> Tensor:
        """Return the reciprocals of int64 numbers below 2**53; that of zero is one."""
        places = (torch.frexp(numbers.double()).exponent.long() - 1 - self.point).clamp(min=0)
        top = self.point + self.growth
        scaled = numbers << (self.growth - places)
        index = (scaled >> (top - self.index_bits)) & ((1 << self.index_bits) - 1)
        word_read = torch.tensor(self.words)[index]
        if not self.has_step:
            return word_read >> places
        word, mantissa = self.word_fraction, self.fraction + 1
        leading = (scaled >> (top - mantissa)) | (1 << mantissa)
        rest = ((2 << (mantissa + word)) - leading * word_read) >> word
        return (word_read * rest) >> (word + 1 + places)
