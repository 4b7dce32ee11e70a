"""A function of numbers of wide range: a table over some octaves, a power beyond them.

An operand is `(-1)**s * 1.f * 2**k`, zero aside, with `f` of `fraction_bits` bits. For `k` from
`low` to `high` the table holds the function at every `(s, k, f)`, rounded to odd (`round_to_odd`):
encoding it in the result's format gives the correctly rounded code. Activations are powers of their
operand near zero and far from it, so that beyond the table

    F((-1)**s * 1.f * 2**k) = F((-1)**s * 1.f * 2**end) * 2**(order * (k - end))

with `end` the nearer end of the table and an order from 0 to 3 for each sign and end. `low` and
`high` are the closest ones for which this is relatively exact to `2**-(precision + TOLERANCE_BITS)`
with the significant bits `precision` of a result, which is an eighth of a step, so that results
are within 5/8 of a step of the function. Results beyond the result's range need only stay there.
The bound is established at the first and the last `f` of every octave near one and near the
function's knots, and of octaves at doubling distances from there to the ends of the range.

A function of blocks with shared scales: the table of `octaves` at every element.

The results of a block decide its scale, and are encoded in it: they are correctly rounded where
the table holds the operand, and within 5/8 of a step beyond.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from mase_hw.approximation.round_to_odd import rounded_to_odd
from mase_hw.approximation.rounding import RealFunction
from mase_hw.arithmetic.scaled import Scaled, decode, significand_bits
from mase_hw.errors import UnsupportedError
from mase_hw.formats import BlockFormat

MAX_WORDS = 8192
MAX_ORDER = 3
TOLERANCE_BITS = 3
_NEAR_ONE = range(-28, 13)


@dataclass(frozen=True)
class Span:
    """Places of leading ones, `floor(log2(|x|))`, from `low` to `high`."""

    low: int
    high: int


@dataclass(frozen=True)
class OctaveTable:
    """A fitted function.

    Attributes:
        octaves: those that the table holds.
        fraction_bits: bits of `f`.
        word_bits: significant bits of a word.
        orders: of plus and minus below the table, then of plus and minus above it.
        words: for each sign, octave and `f` in this order, then for zero.
    """

    octaves: Span
    fraction_bits: int
    word_bits: int
    orders: tuple[int, int, int, int]
    words: Scaled

    @property
    def depth(self) -> int:
        """Words of the table."""
        return self.words.integers.numel()

    def evaluate(self, x: Scaled) -> Scaled:
        """Return the function of numbers whose magnitudes have at most `fraction_bits + 1` bits."""
        magnitude = x.integers.abs()
        place = torch.frexp(magnitude.double()).exponent.long() - 1
        fraction = magnitude << (self.fraction_bits + 1) >> (place.clamp(min=0) + 1)
        fraction &= (1 << self.fraction_bits) - 1
        octave = place + x.exponents
        row = octave.clamp(self.octaves.low, self.octaves.high)
        sign = (x.integers < 0).long()
        rows = self.octaves.high - self.octaves.low + 1
        address = ((sign * rows + row - self.octaves.low) << self.fraction_bits) | fraction
        address = torch.where(magnitude == 0, self.depth - 1, address)
        above = (octave > row).long()
        order = torch.tensor(self.orders)[2 * above + sign]
        distance = torch.where(magnitude == 0, 0, order * (octave - row))
        return Scaled(self.words.integers[address], self.words.exponents[address] + distance)


def fit_octaves(
    function: RealFunction,
    knots: Sequence[float],
    fraction_bits: int,
    operand: Span,
    result: Span,
    precision: int,
    name: str,
) -> OctaveTable:
    """Return the smallest table.

    Args:
        function: the function.
        knots: where it is not smooth.
        fraction_bits: bits of `f`.
        operand: octaves of operands.
        result: octaves of results; smaller ones are zero, larger ones saturate.
        precision: significant bits of a result.
        name: of the function, for errors.

    Raises:
        UnsupportedError: when it has more than `MAX_WORDS` words.
    """
    probe = _Probe(function, fraction_bits, _sampled(operand, knots), result, precision)
    low = next(octave for octave in reversed(probe.octaves) if probe.holds(octave, below=True))
    if low == probe.octaves[-1]:
        # One power everywhere: any octave will do.
        low = min(probe.octaves, key=abs)
    above = [octave for octave in probe.octaves if octave >= low]
    high = next(octave for octave in above if probe.holds(octave, below=False))
    rows = high - low + 1
    if (2 * rows << fraction_bits) + 1 > MAX_WORDS:
        raise UnsupportedError(
            f"{name} takes {rows} octaves of {2 << fraction_bits} words, at most {MAX_WORDS} words "
            f"in all: use elements of fewer than {fraction_bits + 2} bits"
        )
    fractions = 1.0 + torch.arange(1 << fraction_bits).double() / (1 << fraction_bits)
    scales = torch.pow(2.0, torch.arange(low, high + 1).double())
    positive = (scales[:, None] * fractions).flatten()
    x = torch.cat([positive, -positive, torch.zeros(1).double()])
    words, _ = rounded_to_odd(function, x, precision + 2)
    first, second = probe.orders(low, below=True)
    third, fourth = probe.orders(high, below=False)
    orders = (first, second, third, fourth)
    return OctaveTable(Span(low, high), fraction_bits, precision + 2, orders, words)


def _sampled(span: Span, knots: Sequence[float]) -> list[int]:
    """Return the octaves that are looked at, in order."""
    near = set(_NEAR_ONE)
    for knot in knots:
        if knot and math.isfinite(knot):
            place = math.frexp(abs(knot))[1] - 1
            near |= set(range(place - 4, place + 5))
    far = [1 << step for step in range(1, 10)]
    near |= {min(near) - distance for distance in far} | {max(near) + distance for distance in far}
    near |= {span.low, span.low + 1, span.high - 1, span.high}
    return sorted(octave for octave in near if span.low <= octave <= span.high)


class _Probe:
    """The function at the first and the last fraction of some octaves, of both signs."""

    def __init__(
        self,
        function: RealFunction,
        fraction_bits: int,
        octaves: Sequence[int],
        result: Span,
        precision: int,
    ) -> None:
        self.octaves = list(octaves)
        self._result = result
        self._tolerance = 2.0 ** -(precision + TOLERANCE_BITS)
        ends = torch.tensor([1.0, 2.0 - 2.0**-fraction_bits], dtype=torch.float64)
        positive = torch.pow(2.0, torch.tensor(self.octaves).double())[:, None] * ends
        x = torch.stack([positive, -positive], 1)
        values, _ = rounded_to_odd(function, x.flatten(), precision + TOLERANCE_BITS + 2)
        # [octaves, signs, fractions]
        self._integers = values.integers.reshape(x.shape).tolist()
        self._exponents = values.exponents.reshape(x.shape).tolist()

    def orders(self, end: int, below: bool) -> tuple[int, int]:
        """Return the orders of both signs beyond `end`."""
        return self._order(end, 0, below), self._order(end, 1, below)

    def holds(self, end: int, below: bool) -> bool:
        """True if the function is a power beyond `end`, for both signs."""
        position = self.octaves.index(end)
        beyond = self.octaves[:position] if below else self.octaves[position + 1 :]
        return all(
            self._follows(end, octave, sign, fraction, order)
            for sign, order in enumerate(self.orders(end, below))
            for octave in beyond
            for fraction in (0, 1)
        )

    def _at(self, octave: int, sign: int, fraction: int) -> tuple[int, int]:
        position = self.octaves.index(octave)
        return (
            self._integers[position][sign][fraction],
            self._exponents[position][sign][fraction],
        )

    def _order(self, end: int, sign: int, below: bool) -> int:
        position = self.octaves.index(end) + (-1 if below else 1)
        if not 0 <= position < len(self.octaves):
            return 0
        (here, place), (there, other) = (
            self._at(octave, sign, 0) for octave in (end, self.octaves[position])
        )
        if here == 0 or there == 0:
            return 0
        growth = math.log2(abs(here / there)) + place - other
        order = round(growth / (end - self.octaves[position]))
        return max(0, min(MAX_ORDER, order))

    def _follows(self, end: int, octave: int, sign: int, fraction: int, order: int) -> bool:
        base, base_place = self._at(end, sign, fraction)
        true, true_place = self._at(octave, sign, fraction)
        if base == 0 or true == 0:
            return base == true
        base_place += order * (octave - end)
        if (base < 0) != (true < 0):
            return False
        places = [
            place + abs(integer).bit_length() - 1
            for integer, place in ((base, base_place), (true, true_place))
        ]
        if max(places) < self._result.low or min(places) > self._result.high:
            return True
        if abs(places[0] - places[1]) > 1:
            return False
        return abs(base / true * 2.0 ** (base_place - true_place) - 1) <= self._tolerance


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
