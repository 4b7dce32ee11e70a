"""Small sums of products of blocks equal a definition written apart from them, for all operands."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, reduce

import pytest

from mase_hw.cells.block_accumulate import BlockAccumulate
from mase_hw.formats.fixed import Fixed
from tests.cells.blocks import Block, Blocks, float_blocks, integer_blocks
from tests.cells.rational import Claim, check, fixed_pattern
from tests.formats.block_rule import power_of

TWO = Fraction(2)
# A number, and the place of its lowest bit.
Term = tuple[Fraction, int]


@cache
def add(total: Term, term: Term) -> Term:
    """Return a sum of floats: of two, both lose what is below the larger one's last place."""
    place = max(total[1], term[1])
    whole = sum(math.floor(value / TWO**place) for value, _ in (total, term))
    return whole * TWO**place, place


def every(blocks: Blocks | None) -> list[Block]:
    return blocks.every() if blocks is not None else []


def rounded(number: Fixed | Blocks, value: Fraction) -> int:
    if isinstance(number, Fixed):
        return fixed_pattern(number, value)
    return number.nearest([value]).beats(1)[0]


@dataclass(frozen=True)
class Sums:
    """Sums of some blocks of products, and a bias.

    Attributes:
        data: of the data.
        weight: of the weights, in blocks as long.
        bias: of the biases, one in a block; None for none.
        result: of the results.
        guard_bits: further bits of sums.
        count: blocks of a sum.
        lanes: elements of a beat.
        exact: whether nothing is lost.
    """

    data: Blocks
    weight: Blocks
    bias: Blocks | None
    result: Fixed | Blocks
    guard_bits: int
    count: int = 1
    lanes: int = 1
    exact: bool = False

    @property
    def _step(self) -> int:
        """The place of the lowest bit of a product, without scales."""
        return power_of(self.data.step * self.weight.step)

    @property
    def _further(self) -> int:
        """Places that a bias has below its lowest bit."""
        return self.guard_bits - power_of(self.data.step)

    @property
    def width(self) -> int:
        """Bits that the largest sum takes, and what rounding down takes from it."""
        size = self.data.encoding.block_size * self.count
        largest = size * max(self.data.elements.values()) * max(self.weight.elements.values())
        units = largest / TWO**self._step * 2**self.guard_bits + self.count
        if self.bias is not None:
            units += max(self.bias.elements.values()) / self.bias.step * 2**self._further
        return int(units).bit_length() + 1

    def product(self, rows: Block, columns: Block) -> Term:
        value = sum(x * w for x, w in zip(rows.values, columns.values, strict=True))
        place = self._step + self.data.exponent(rows) + self.weight.exponent(columns)
        return Fraction(value), place - self.guard_bits

    def start(self, block: Block) -> Term:
        assert self.bias is not None
        place = power_of(self.bias.step) + self.bias.exponent(block) + self.bias.above(block)
        return block.values[0], place - self._further

    def claim(self) -> Claim:
        out = self.result
        inputs: dict[str, list[int]] = {"data_in_0": [], "weight": [], "bias": []}
        wanted = []
        products = [
            (rows.beats(self.lanes), columns.beats(self.lanes), self.product(rows, columns))
            for rows, columns in itertools.product(self.data.every(), self.weight.every())
        ]
        starts = [(block.beats(1), [self.start(block)]) for block in every(self.bias)] or [([], [])]
        nearest = cache(lambda value: rounded(out, value))
        for *parts, (bias, start) in itertools.product(*[products] * self.count, starts):
            for rows, columns, _ in parts:
                inputs["data_in_0"] += rows
                inputs["weight"] += columns
            inputs["bias"] += bias
            terms = [*start, *(term for _, _, term in parts)]
            if self.exact:
                wanted.append(nearest(sum(value for value, _ in terms)))
            else:
                wanted.append(nearest(reduce(add, terms)[0]))
        beats = self.count * self.data.encoding.block_size // self.lanes
        cell = BlockAccumulate(
            self.data.encoding, self.weight.encoding, self.bias and self.bias.encoding,
            out.encoding, beats, 1, self.lanes, 1, beats, beats, 1, self.guard_bits, self.width,
        )  # fmt: skip
        return Claim(cell, {port: given for port, given in inputs.items() if given}, wanted)


def fixed(rounding: str = "nearest_even", overflow: str = "saturate") -> Fixed:
    return Fixed(6, 2, True, rounding, overflow)


ONE = replace(integer_blocks(2, 1, 1), elements={1: Fraction(1)}, codes=1)
SUMS = {
    "one block, a bias": Sums(
        integer_blocks(2, 2, 2), integer_blocks(2, 2, 2), integer_blocks(2, 2, 1), fixed(), 3,
        lanes=2,
    ),
    "a block of two beats": Sums(
        integer_blocks(2, 2, 2), integer_blocks(2, 2, 2), None, fixed("nearest_up"), 0
    ),
    "two blocks": Sums(
        integer_blocks(3, 2, 1), integer_blocks(2, 1, 1), None, fixed("toward_zero"), 0, 2
    ),
    "two blocks, in blocks": Sums(
        integer_blocks(2, 2, 1), integer_blocks(2, 2, 1), None, integer_blocks(4, 4, 1), 1, 2
    ),
    "two blocks, a bias": Sums(
        integer_blocks(2, 2, 1), integer_blocks(2, 1, 1), integer_blocks(2, 2, 1),
        fixed("floor", "wrap"), 1, 2,
    ),
    "two blocks, exact": Sums(
        integer_blocks(2, 2, 1), integer_blocks(2, 2, 1), None, fixed(), 6, 2, exact=True
    ),
    # Sums move by several units of 16 bits, and out of sight.
    "two blocks far apart, of ones": Sums(
        integer_blocks(2, 6, 1), ONE, None, integer_blocks(4, 7, 1), 1, 2
    ),
    "a bias far apart, of ones": Sums(
        integer_blocks(3, 5, 1), ONE, integer_blocks(2, 6, 1), integer_blocks(4, 7, 1), 2
    ),
    "floats, a bias": Sums(
        float_blocks(2, 1, 2, 1), float_blocks(1, 1, 2, 1), float_blocks(1, 1, 2, 1),
        float_blocks(2, 1, 4, 1), 1,
    ),
    "floats, integers": Sums(
        float_blocks(1, 1, 2, 2), integer_blocks(2, 1, 2), None, fixed(), 0, lanes=2
    ),
}  # fmt: skip


CLAIMS: dict[str, Callable[[], Claim]] = {name: sums.claim for name, sums in SUMS.items()}


@pytest.mark.full
@pytest.mark.parametrize("name", CLAIMS)
def test_every_operand_gives_what_the_definition_says(name, found):
    check(*found[name])
