"""Small rows of norms equal a definition written apart from them, for all rows and weights."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property

import pytest
from torch import nn

from mase_hw.cells import Image
from mase_hw.cells.row_norm import RowNorm
from mase_hw.formats.fixed import ROUNDING_MODES, Fixed
from tests.cells.operators import operator_cell
from tests.cells.rational import check, down, fixed_pattern, nearest, values_of
from tests.cells.real import square_root
from tests.cells.rows import RowClaim, joined, streamed
from tests.formats.block_rule import power_of

# A weight and a bias by their bits, for each element of a row.
Affine = tuple[tuple[int, int], ...]


@cache
def reciprocal_root(number: int, bits: int) -> Fraction:
    """Return about `1 / sqrt(number)`, as `mase_hw/approximation/reciprocal_root.py` says."""
    places, step = power_of(Fraction(number)), bits > 10
    odd, mantissa = 2 ** (places % 2), Fraction(number, 2**places)
    index = (bits + 1) // 2 if step else bits - 1
    middle = 1 + down(mantissa - 1, index) + Fraction(1, 2 ** (index + 1))
    found = nearest(1 / square_root(odd * middle), index + 2 if step else bits)
    if step:
        square = down(found * found * odd * down(mantissa, bits + 1), bits + 1)
        found = down(found * (3 - square) / 2, bits)
    return found / 2 ** (places // 2)


@dataclass(frozen=True)
class Rows:
    """All rows of a size, with all weights and biases.

    Attributes:
        operand: of the elements.
        result: of the results.
        size: elements of a row.
        lanes: of a beat.
        epsilon: what is added below the root.
        centred: whether the mean is subtracted.
        weight: of the weights; None for none.
        bias: of the biases; None for none.
    """

    operand: Fixed
    result: Fixed
    size: int
    lanes: int = 1
    epsilon: float = 1e-5
    centred: bool = True
    weight: Fixed | None = None
    bias: Fixed | None = None

    @cached_property
    def cell(self) -> RowNorm:
        """What the operator makes, which decides how many bits numbers have."""
        kind, node = (nn.LayerNorm, "layer_norm") if self.centred else (nn.RMSNorm, "rms_norm")
        given = {"weight": self.weight, "bias": self.bias}
        formats = {name: number for name, number in given.items() if number is not None}
        options = {"elementwise_affine": self.weight is not None}
        if self.centred:
            options["bias"] = self.bias is not None
        model = kind(self.size, self.epsilon, **options)
        formats |= {"data_in": self.operand, "data_out": self.result}
        return operator_cell(RowNorm, model, node, self.size, **formats)

    def terms(self, row: tuple[Fraction, ...]) -> list[Fraction]:
        """Return normalised elements, as `mase_hw/approximation/row_norm.py` has them."""
        codes = [int(value * 2**self.operand.frac_width) for value in row]
        total, below = sum(codes) * self.centred, self.cell.below_bits
        added = Fraction(self.epsilon) * self.size**2 * 2 ** (below + 2 * self.operand.frac_width)
        square = self.size * sum(code * code for code in codes) - total**2
        root = reciprocal_root(2**below * square + max(1, round(added)), self.cell.root_fraction)
        scale = root * 2 ** (below // 2)
        return [down((self.size * x - total) * scale, self.cell.term_fraction) for x in codes]

    def exact(self, row: tuple[Fraction, ...]) -> list[Fraction]:
        mean = sum(row) / self.size * self.centred
        squares = sum((value - mean) ** 2 for value in row) / self.size
        return [(value - mean) / square_root(squares + Fraction(self.epsilon)) for value in row]

    def affine(self) -> Iterator[Affine]:
        """Yield weights and biases, which differ from element to element."""
        given = [range(1 << (number.width if number else 0)) for number in (self.weight, self.bias)]
        for pair in itertools.product(*given):
            flipped = tuple(
                code ^ (len(codes) - 1) for code, codes in zip(pair, given, strict=True)
            )
            yield tuple(flipped if place % 2 else pair for place in range(self.size))

    def weighted(self, terms: Sequence[Fraction], affine: Affine) -> list[Fraction]:
        """Return results of normalised elements, before rounding."""
        weights = values_of(self.weight) if self.weight else {0: Fraction(1)}
        biases = values_of(self.bias) if self.bias else {0: Fraction()}
        return [
            term * weights[weight] + biases[bias]
            for term, (weight, bias) in zip(terms, affine, strict=True)
        ]

    def claim(self) -> RowClaim:
        values, width = values_of(self.operand), self.operand.width
        rows = list(itertools.product(values, repeat=self.size))
        terms = [self.terms(tuple(values[code] for code in row)) for row in rows]
        wanted, words = [], []
        for affine in self.affine():
            bits = self.cell.weight.width
            lane = bits + self.cell.bias.width
            words += streamed([w | b << bits for w, b in affine], lane, self.lanes, 0)
            for row in terms:
                found = [fixed_pattern(self.result, item) for item in self.weighted(row, affine)]
                wanted.append(joined(found, self.result.width))
        beats = [
            beat for row in rows for beat in streamed(row, width, self.lanes, ~row[0] % 2**width)
        ]
        layers = len(wanted) // len(rows)
        image = Image(self.cell.weights.width_bits * self.lanes, lambda: words)
        cell = replace(self.cell, lanes=self.lanes, weights=image, beats=len(beats), layers=layers)
        return RowClaim(
            cell, {"data_in_0": beats * layers}, wanted, self.size, self.result.width, self.lanes
        )


NUMBER, RESULT = Fixed(4, 2), Fixed(6, 3)
ROWS = {
    **{
        f"rows of three {rounding}": Rows(NUMBER, Fixed(6, 4, True, rounding), 3,
        1 + place % 2)
        for place, rounding in enumerate(ROUNDING_MODES)
    },
    "mean squares": Rows(NUMBER, RESULT, 3, 3, centred=False),
    "mean squares of naturals": Rows(Fixed(4, 1, False), RESULT, 3, 2, 0.01, centred=False),
    "naturals": Rows(Fixed(4, 0, False), RESULT, 3, 1, 0.5),
    "whole numbers, one below the root": Rows(NUMBER, Fixed(4, 0), 3, 2, 1.0),
    "pairs, wrapped": Rows(Fixed(6, 5), Fixed(4, 3, True, "floor", "wrap"), 2, 2, 1e-3),
    "a step": Rows(Fixed(3, 1), Fixed(10, 7), 4, 2),
    "a step, mean squares": Rows(Fixed(5, 4), Fixed(12, 9), 2, 1, 1e-2, centred=False),
    "weights": Rows(Fixed(3, 1), RESULT, 3, 2, weight=Fixed(3, 1)),
    "weights and biases": Rows(Fixed(3, 1), Fixed(5, 2), 2, weight=Fixed(3, 1), bias=Fixed(3, 2)),
    "mean squares, weights": Rows(Fixed(4, 3), Fixed(5, 3), 2, 2, centred=False, weight=Fixed(3,
        2, False)),
    "coarse weights, fine biases": Rows(Fixed(3, 0), Fixed(5, 0), 2, 2, weight=Fixed(2, -1),
        bias=Fixed(3, 7)),
}  # fmt: skip
CLAIMS: dict[str, Callable[[], RowClaim]] = {name: rows.claim for name, rows in ROWS.items()}


@pytest.mark.full
@pytest.mark.parametrize("name", CLAIMS)
def test_every_row_gives_what_the_definition_says(name, found):
    claim, beats = found[name]
    check(claim, claim.rows(beats))


@pytest.mark.first(3)
@pytest.mark.parametrize("name", ROWS)
def test_rounding_is_all_but_half_a_step_of_what_a_result_is_off(name):
    """Where it is no number that the result's format lacks."""
    rows = ROWS[name]
    half = Fraction(2) ** -(rows.result.frac_width + 1)
    every = values_of(rows.result).values()
    low, high = min(every), max(every)
    saturates = rows.result.overflow == "saturate"
    for row in itertools.product(values_of(rows.operand).values(), repeat=rows.size):
        terms, exact = rows.terms(row), rows.exact(row)
        for affine in rows.affine():
            pairs = zip(rows.weighted(terms, affine), rows.weighted(exact, affine), strict=True)
            for pair in pairs:
                near, true = (min(max(item, low), high) if saturates else item for item in pair)
                assert abs(near - true) < half, (row, affine)
