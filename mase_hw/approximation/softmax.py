"""Softmax of a row in fixed point: exact maximum, exponentials by table, one reciprocal.

For codes `x` of `f` fraction bits in a row of `n`, in integers:

    d[i] = max x - x[i],                           the exact difference,
    e[i] = round(2**G * exp(-scale d[i] * 2**-f)), from a table,
    s = sum of e,                                  exact, at least 2**G,
    u = 2**Q * 2**G / s,                           see `reciprocal`,
    y[i] = cast(e[i] * u),                         of G + Q fraction bits, rounded once.

`F` being the fraction bits of the result, 6 or more, `Q = F + 3` and
`G = F + 2 + max(1, ceil(log2 n))`: all errors of exponentials together are a quarter of a step of
the result, and what comes before the last rounding is off by less than half a step. Differences of
more than 10 bits are cut in half, and the exponential is the product of two, each of `G + 1`
fraction bits, rounded.

Where a mask leaves elements out, those are neither in the maximum nor in the sum, and their results
are zero; so are those of a row that is left out whole, as torch's attention has it.

Subtracting the maximum is in Milakov and Gimelshein, "Online normalizer calculation for softmax"
(arXiv:1805.02867); a product of exponentials of the parts of a number is in Tang, "Table-driven
implementation of the exponential function", ACM TOMS 15(2), 1989.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from torch import Tensor

from mase_hw.approximation._real_math import Real, RealMath
from mase_hw.approximation.reciprocal import Reciprocal
from mase_hw.approximation.rounding import correctly_rounded
from mase_hw.formats.fixed import MAX_WIDTH_BITS, Fixed

MAX_TABLE_BITS = 10
MAX_OPERAND_BITS = 22
MIN_FRACTION_BITS = 6


@dataclass(frozen=True)
class Softmax:
    """The arithmetic of rows of a size.

    Attributes:
        operand: format of the elements.
        result: of the results.
        size: elements of a row.
        scale: what elements are multiplied with before, more than zero.
    """

    operand: Fixed
    result: Fixed
    size: int
    scale: float = 1.0

    @property
    def problems(self) -> list[str]:
        """What stands between the formats and hardware."""
        problems = []
        if not 0 < self.scale < float("inf"):
            problems.append(f"its scale is {self.scale}; it must be more than zero")
        if self.operand.width > MAX_OPERAND_BITS:
            problems.append(
                f"the operand has {self.operand.width} bits, at most {MAX_OPERAND_BITS} are "
                "supported: use a narrower one"
            )
        most = MAX_WIDTH_BITS - 2
        if self.exponential_fraction > most:
            allowed = self._fraction + most - self.exponential_fraction
            problems.append(
                f"the result has {self.result.frac_width} fraction bits; rows of {self.size} "
                f"allow at most {allowed}: set data_out_frac_width"
            )
        return problems

    @property
    def _fraction(self) -> int:
        return max(MIN_FRACTION_BITS, self.result.frac_width)

    @property
    def growth(self) -> int:
        """Bits by which a sum may exceed its largest term, at least one."""
        return max(1, (self.size - 1).bit_length())

    @property
    def exponential_fraction(self) -> int:
        """Fraction bits of exponentials, which have one bit more."""
        return self._fraction + 2 + self.growth

    @cached_property
    def reciprocal(self) -> Reciprocal:
        """What the sums are multiplied with the reciprocal of."""
        return Reciprocal(self.exponential_fraction, self.growth, self._fraction + 3)

    @property
    def fine_bits(self) -> int:
        """Bits of the lower half of a difference; all of it where there is one table."""
        width = self.operand.width
        return width if width <= MAX_TABLE_BITS else width // 2

    @property
    def word_fraction(self) -> int:
        """Fraction bits of the tables' words, which have one bit more."""
        whole = self.fine_bits == self.operand.width
        return self.exponential_fraction + (not whole)

    @cached_property
    def fine(self) -> tuple[int, ...]:
        """Exponentials of the lower halves."""
        return self._table(1, self.fine_bits)

    @cached_property
    def coarse(self) -> tuple[int, ...]:
        """Exponentials of the upper halves."""
        return self._table(1 << self.fine_bits, self.operand.width - self.fine_bits)

    def _table(self, step: int, bits: int) -> tuple[int, ...]:
        return _exponentials(self.scale, step, bits, self.operand.frac_width, self.word_fraction)

    def evaluate(self, codes: Tensor, kept: Tensor | None = None) -> Tensor:
        """Return the result codes of int64 codes `[..., size]`.

        Args:
            codes: the elements.
            kept: bool of a shape that broadcasts, which elements count; None for all.
        """
        if kept is not None:
            codes = torch.where(kept, codes, self.operand.minimum_code)
        differences = codes.amax(-1, keepdim=True) - codes
        fine = torch.tensor(self.fine)[differences & ((1 << self.fine_bits) - 1)]
        if self.fine_bits == self.operand.width:
            exponentials = fine
        else:
            product = fine * torch.tensor(self.coarse)[differences >> self.fine_bits]
            below = 2 * self.word_fraction - self.exponential_fraction
            exponentials = (product + (1 << (below - 1))) >> below
        if kept is not None:
            exponentials = exponentials * kept
        scales = self.reciprocal.evaluate(exponentials.sum(-1, keepdim=True))
        fraction = self.exponential_fraction + self.reciprocal.fraction
        return self.result.from_fixed(exponentials * scales, fraction)


def most_fraction(size: int) -> int:
    """Return the most fraction bits of results in rows of a size."""
    return MAX_WIDTH_BITS - 4 - max(1, (size - 1).bit_length())


@lru_cache(maxsize=64)
def _exponentials(
    scale: float, step: int, bits: int, operand_fraction: int, fraction: int
) -> tuple[int, ...]:
    """Return the exponentials of the negative multiples of a number of codes, scaled."""

    def decayed(x: Real, math: RealMath) -> Real:
        return math.exp(-x * scale)

    operand = Fixed(MAX_WIDTH_BITS, operand_fraction, signed=False)
    result = Fixed(fraction + 1, fraction, signed=False)
    codes = torch.arange(1 << bits) * step
    return tuple(correctly_rounded(decayed, codes, operand, result).tolist())
