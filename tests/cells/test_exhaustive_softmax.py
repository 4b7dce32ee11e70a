"""Small rows of softmax equal a definition written apart from them, for all rows and masks."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from math import floor
from unittest import mock

import pytest

from mase_hw.cells.softmax import Softmax
from mase_hw.formats import Encoding
from mase_hw.formats.fixed import ROUNDING_MODES, Fixed
from mase_hw.geometry.growth import Growth
from tests.cells.operators import operator_cell
from tests.cells.rational import check, down, fixed_pattern, nearest, values_of
from tests.cells.real import exponential
from tests.cells.rows import RowClaim, joined, streamed
from tests.formats.block_rule import power_of

# How far each element is below the maximum; None for one that is left out.
Differences = tuple[Fraction | None, ...]
PADDING = 2


@cache
def reciprocal(total: Fraction, bits: int) -> Fraction:
    """Return about `1 / total`, from 1 on, as `mase_hw/approximation/reciprocal.py` says."""
    place, step = power_of(total), bits > 11
    mantissa = total / 2**place
    index = (bits + 1) // 2 if step else bits - 1
    entry = floor((mantissa - 1) * 2**index)
    middle = 1 + (entry + Fraction(1, 2)) / 2**index if entry else Fraction(1)
    found = nearest(1 / middle, index + 2 if step else bits)
    if step:
        found *= down(2 - down(mantissa, bits + 1) * found, bits + 1)
    return down(found / 2**place, bits)


@dataclass(frozen=True)
class Rows:
    """All rows of a size.

    Attributes:
        operand: of the elements.
        result: of the results.
        size: elements of a row.
        lanes: of a beat.
        scale: what elements are multiplied with.
        masked: whether a bit says which of them count.
        padded: whether a number does.
        table_bits: of differences that have one table.
        grows: whether rows have one element, two, and so on until `size`.
    """

    operand: Fixed
    result: Fixed
    size: int
    lanes: int = 1
    scale: float = 1.0
    masked: bool = False
    padded: bool = False
    table_bits: int = 10
    grows: bool = False

    @property
    def _bits(self) -> int:
        """Fraction bits of a result, at least six."""
        return max(6, self.result.frac_width)

    def exponential(self, difference: Fraction) -> Fraction:
        bits = self._bits + 2 + max(1, (self.size - 1).bit_length())
        if self.operand.width <= self.table_bits:
            return nearest(self.decay(difference), bits)
        low = difference % (Fraction(2) ** (self.operand.width // 2 - self.operand.frac_width))
        halves = [nearest(self.decay(part), bits + 1) for part in (low, difference - low)]
        return nearest(halves[0] * halves[1], bits)

    def decay(self, difference: Fraction) -> Fraction:
        return exponential(-difference * Fraction(self.scale))

    def results(self, row: Differences) -> list[Fraction]:
        terms = [Fraction() if item is None else self.exponential(item) for item in row]
        total = sum(terms)
        return [item * reciprocal(total, self._bits + 3) if total else item for item in terms]

    def exact(self, row: Differences) -> list[Fraction]:
        terms = [Fraction() if item is None else self.decay(item) for item in row]
        return [item / (sum(terms) or 1) for item in terms]

    def every(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
        count = self.size * (self.size + 1) // 2 if self.grows else self.size
        sets = [
            range(1 << self.operand.width),
            range(1 - self.masked, 2),
            range(1 << PADDING) if self.padded else [1],
        ]
        for row in itertools.product(itertools.product(*sets), repeat=count):
            codes, kept, padding = zip(*row, strict=True)
            yield codes, kept, padding

    def differences(self, codes, kept, padding) -> list[Differences]:
        values = values_of(self.operand)
        whole = [
            values[code] if bit and number else None
            for code, bit, number in zip(codes, kept, padding, strict=True)
        ]
        sizes = range(1, self.size + 1) if self.grows else [self.size]
        rows = [whole[sum(sizes[:place]) :][:size] for place, size in enumerate(sizes)]
        largest = [max((item for item in row if item is not None), default=None) for row in rows]
        return [
            tuple(None if item is None else top - item for item in row)
            for row, top in zip(rows, largest, strict=True)
        ]

    def cell(self) -> Softmax:
        formats = {"data_in": self.operand, "data_out": self.result}
        with mock.patch("mase_hw.approximation.softmax.MAX_TABLE_BITS", self.table_bits):
            cell = operator_cell(
                Softmax, lambda x: (x * self.scale).softmax(-1), "softmax", self.size, **formats
            )
            assert all(image.words for _, image in cell.images.values())
        growth = Growth(1, 1, self.size) if self.grows else None
        number = Encoding(PADDING, signed=False) if self.padded else Encoding(1)
        beats = growth.beats if growth else -(-self.size // self.lanes)
        return replace(
            cell, lanes=self.lanes, beats=beats, masked=self.masked, padded=self.padded,
            data_in_1=number, rows=growth,
        )  # fmt: skip

    def claim(self) -> RowClaim:
        inputs: dict[str, list[int]] = {"data_in_0": [], "mask": [], "data_in_1": []}
        widths, wanted = {"data_in_0": self.operand.width, "mask": 1, "data_in_1": PADDING}, []

        @cache
        def codes(row: Differences) -> list[int]:
            return [fixed_pattern(self.result, value) for value in self.results(row)]

        for given in self.every():
            for (port, width), row in zip(widths.items(), given, strict=True):
                inputs[port] += streamed(row, width, self.lanes, ~row[0] % 2**width or 1)
            found = [code for row in self.differences(*given) for code in codes(row)]
            wanted.append(joined(found, self.result.width))
        used = ["data_in_0", *["mask"] * self.masked, *["data_in_1"] * self.padded]
        cell = self.cell()
        return RowClaim(
            cell, {port: inputs[port] for port in used}, wanted, len(found), self.result.width,
            self.lanes,
        )  # fmt: skip


NUMBER, RESULT = Fixed(4, 2), Fixed(6, 5)
ROWS = {
    **{
        f"rows of three {rounding}": Rows(NUMBER, Fixed(6, 5, True, rounding), 3, 1 + place % 2)
        for place, rounding in enumerate(ROUNDING_MODES)
    },
    "scaled naturals": Rows(Fixed(4, 1, False), Fixed(7, 7, False), 3, 3, scale=0.7),
    "rows of two, wrapped": Rows(Fixed(6, 3), Fixed(9, 8, True, "floor", "wrap"), 2, 2),
    "a step": Rows(Fixed(5, 2), Fixed(12, 10), 2),
    "a step with multipliers": Rows(Fixed(3, 1), Fixed(14, 13, False), 4, 2),
    "two tables": Rows(Fixed(5, 3), Fixed(8, 7), 2, table_bits=4),
    "two tables of naturals": Rows(Fixed(4, 0, False), RESULT, 3, 2, scale=0.3, table_bits=3),
    "a mask": Rows(Fixed(3, 1), RESULT, 3, 2, masked=True),
    "padding": Rows(Fixed(3, 1, False), RESULT, 2, padded=True),
    "a mask and padding": Rows(Fixed(3, 1), RESULT, 2, 2, masked=True, padded=True),
    "rows that grow": Rows(Fixed(3, 1), RESULT, 2, grows=True),
    "rows that grow, a mask": Rows(Fixed(2, 0), RESULT, 2, masked=True, grows=True),
    "rows of one": Rows(NUMBER, RESULT, 1),
}
CLAIMS: dict[str, Callable[[], RowClaim]] = {name: rows.claim for name, rows in ROWS.items()}


@pytest.mark.full
@pytest.mark.parametrize("name", CLAIMS)
def test_every_row_gives_what_the_definition_says(name, found):
    claim, beats = found[name]
    check(claim, claim.rows(beats))


@pytest.mark.parametrize("name", ROWS)
def test_rounding_is_all_but_half_a_step_of_what_a_result_is_off(name):
    rows = ROWS[name]
    half = Fraction(2) ** -(rows.result.frac_width + 1)
    kinds = {item for given in rows.every() for item in rows.differences(*given)}
    for kind in kinds:
        for found, exact in zip(rows.results(kind), rows.exact(kind), strict=True):
            assert abs(found - exact) < half, kind
