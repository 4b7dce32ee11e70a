"""A function of blocks with shared scales: the table of `octaves` at every element.

The results of a block decide its scale, and are encoded in it: they are correctly rounded where
the table holds the operand, and within 5/8 of a step beyond.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from mase_hw.approximation.octaves import OctaveTable, Span, fit_octaves
from mase_hw.approximation.rounding import RealFunction
from mase_hw.arithmetic.blocks import decode, significand_bits
from mase_hw.formats import BlockFormat


@dataclass(frozen=True)
class BlockTable:
    """A fitted function.

    Attributes:
        table: the function of an element.
    """

    operand: BlockFormat
    result: BlockFormat
    table: OctaveTable

    @classmethod
    def fit(
        cls,
        function: RealFunction,
        knots: Sequence[float],
        operand: BlockFormat,
        result: BlockFormat,
        name: str,
    ) -> BlockTable:
        """Fit the table of a real function."""
        fraction_bits, precision = significand_bits(operand) - 2, significand_bits(result) - 1
        inner, outer = _octaves(operand), _octaves(result)
        table = fit_octaves(function, knots, fraction_bits, inner, outer, precision, name)
        return cls(operand, result, table)

    def evaluate(self, codes: Tensor) -> Tensor:
        """Return the result codes of operand codes."""
        scaled = self.table.evaluate(decode(self.operand, codes))
        return self.result.from_scaled(scaled.integers, scaled.exponents)

    @cached_property
    def exponent_bits(self) -> int:
        """Bits of an exponent in the memory."""
        exponents: list[int] = self.table.words.exponents.tolist()
        return 1 + max(max(place, ~place).bit_length() for place in exponents)

    @cached_property
    def words(self) -> tuple[int, ...]:
        """The bit patterns of the memory: the integer in the low bits, its exponent above."""
        width = self.table.word_bits + 1
        mask, exponent_mask = (1 << width) - 1, (1 << self.exponent_bits) - 1
        words = self.table.words
        pairs = zip(words.integers.tolist(), words.exponents.tolist(), strict=True)
        return tuple(
            (integer & mask) | (exponent & exponent_mask) << width for integer, exponent in pairs
        )


def _octaves(number: BlockFormat) -> Span:
    """Return the octaves of a format's elements; half of its smallest step is below them."""
    low = number.element.lsb_exponent - number.scale.bias
    return Span(low - 2, number.element.exponent + number.scale.codes - number.scale.bias)
