"""Softmax of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mase_hw.cells._base import Cell, Image, Port, Value, fact
from mase_hw.cells._components import Adder, Components, Gates, Product, Register, Rounding, Table
from mase_hw.cells._fixed_components import cast
from mase_hw.cells._growing import growth_parameters
from mase_hw.cells._motion import Chain, Motion
from mase_hw.cells._pipeline import stream_pipeline
from mase_hw.cells._row_components import reciprocal, row_flags, row_fold, row_store
from mase_hw.cells._rows import Rows
from mase_hw.formats import Encoding
from mase_hw.geometry.growth import Growth


@dataclass(frozen=True)
class Softmax(Cell):
    """Exponentials of the differences from the maximum of a row, over their sum.

    Attributes:
        data_in_0: of the elements, integers.
        data_out_0: of the results, integers.
        lanes: elements of a beat.
        row: elements of a row.
        growth: bits by which a sum may exceed its largest term.
        exponential_fraction: fraction bits of exponentials.
        fine_bits: bits of a difference that the first table takes; the second takes the others.
        word_fraction: fraction bits of the tables' words.
        fraction: fraction bits of the reciprocal of a sum.
        index_bits: binary logarithm of the words of the table of reciprocals.
        step: whether a step of Newton's iteration follows it.
        masked: whether a bit comes with each element, one where it counts.
        padded: whether a number comes with each element, zero where it does not count.
        data_in_1: of those numbers.
        fine: the first table.
        coarse: the second one, empty where there is none.
        reciprocal: the table of reciprocals.
        beats: beats of one inference.
        rows: their beats, where rows grow; lanes outside of the longest are left out then.
    """

    data_in_0: Encoding
    data_out_0: Encoding
    lanes: int
    row: int
    growth: int
    exponential_fraction: int
    fine_bits: int
    word_fraction: int
    fraction: int
    index_bits: int
    step: bool
    masked: bool
    padded: bool
    data_in_1: Encoding
    fine: Image
    coarse: Image
    reciprocal: Image
    beats: int = fact(1)
    rows: Growth | None = None

    @property
    def parameters(self) -> Mapping[str, Value]:
        return {**super().parameters, **growth_parameters(self.rows, "ROWS")}

    @property
    def inputs(self) -> Mapping[str, Port]:
        """The elements, and which of them count."""
        mask = Port.elements(Encoding(1), self.lanes, self.beats if self.masked else 0)
        kept = self.beats if self.padded else 0
        return {
            "data_in_0": Port.elements(self.data_in_0, self.lanes, self.beats),
            "data_in_1": Port.elements(self.data_in_1, self.lanes, kept),
            "mask": mask,
        }

    @property
    def outputs(self) -> Mapping[str, Port]:
        return {"data_out_0": Port.elements(self.data_out_0, self.lanes, self.beats)}

    @property
    def images(self) -> Mapping[str, tuple[str, Image]]:
        tables = {
            "FINE_FILE": ("fine", self.fine),
            "COARSE_FILE": ("coarse", self.coarse),
            "RECIPROCAL_FILE": ("reciprocal", self.reciprocal),
        }
        return {
            name: item for name, item in tables.items() if name != "COARSE_FILE" or self._halves
        }

    @property
    def _leaves_out(self) -> bool:
        return self.masked or self.padded

    @property
    def _halves(self) -> bool:
        return self.fine_bits < self.data_in_0.width

    @property
    def motion(self) -> Motion:
        """Until the maximum, differences and exponentials; until the sum's reciprocal, products."""
        row, fold = -(-self.row // self.lanes), 4 + (self.lanes - 1).bit_length()
        first = Rows(row, fold, 9 if self._halves else 7, self.rows)
        return Chain((first, Rows(row, fold + (8 if self.step else 5), 7, self.rows)))

    @property
    def components(self) -> Components:
        """A maximum, exponentials by table, their sum and its reciprocal, products; two stores."""
        lanes, width, words = self.lanes, self.data_in_0.width, self.word_fraction + 1
        maximum, beats = width + (not self.data_in_0.signed), -(-self.row // lanes)
        exponential = self.exponential_fraction + 1
        fold, stages = 4 + (lanes - 1).bit_length(), 7 if self._halves else 5
        stored = lanes * (width + self._leaves_out)
        first = row_fold(lanes, self.row, width, maximum, maximum=True)
        first += row_flags(lanes)
        first += row_store(stored, beats, fold, [(width, 0)], growth=self.rows)
        first += Components.of(Gates((lanes * width + 2) * self._leaves_out))
        first += Components.of(Register(lanes * self._leaves_out, stages - 2))
        fine = Table(1 << self.fine_bits, words, self.fine, stages=2, readers=lanes)
        lane = Components.of(Adder(width), Register(width), Gates(exponential * self._leaves_out))
        if self._halves:
            coarse = Table(1 << (width - self.fine_bits), words, self.coarse, stages=2)
            below = 2 * self.word_fraction - self.exponential_fraction
            lane += Components.of(coarse, Product(words + 1, words + 1), Register(2 * words - 1))
            lane += Components.of(Rounding(exponential, below), Register(exponential))
        second = Components.of(fine) + lane * lanes + stream_pipeline(lanes * exponential, stages)
        sums = exponential + self.growth
        second += row_fold(lanes, self.row, exponential, sums, signed=False) + row_flags(lanes)
        second += reciprocal(
            *(self.exponential_fraction, self.growth, self.fraction, self.index_bits),
            self.reciprocal,
            step=self.step,
        )
        delay = 8 if self.step else 5
        second += Components.of((Register(1), delay))
        values = [(self.fraction + 1, 0)]
        second += row_store(lanes * exponential, beats, fold + delay, values, growth=self.rows)
        product, fraction = (
            exponential + self.fraction + 1,
            self.exponential_fraction + self.fraction,
        )
        result = Components.of(Product(exponential + 1, self.fraction + 2), Register(product))
        result += cast(product + 1, fraction, self.data_out_0, unsigned=True)
        return first + second + result * lanes + stream_pipeline(lanes * self.data_out_0.width, 5)

    @property
    def multipliers(self) -> int:
        """One a lane, another one for halves, and two for a step."""
        return (1 + self._halves) * self.lanes + 2 * self.step

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """Rows of one beat and of several, a tail, halves, a step, masks of both kinds."""
        number, natural = Encoding(5, fraction=2), Encoding(4, fraction=1, signed=False)
        result = Encoding(6, fraction=5)
        fine, halves = Image(9, lambda: range(256, 0, -8)), Image(10, lambda: (512, 400, 311, 250))
        reciprocal = Image(9, lambda: range(256, 128, -1))
        long = Image(9, lambda: range(128, 64, -1))
        none, padding = Encoding(1), Encoding(2, signed=False)
        tables = (fine, Image(1, tuple), reciprocal)

        def rows(
            lanes: int, row: int, beats: int, *, masked: bool = False, padded: bool = False
        ) -> Softmax:
            kinds = (masked, padded, padding if padded else none)
            return cls(
                number, result, lanes, row, 2, 8, 5, 8, 8, 7, False, *kinds, *tables, beats=beats
            )

        return (
            rows(2, 3, 4),
            rows(1, 3, 6, padded=True),
            rows(4, 4, 2, masked=True, padded=True),
            cls(
                *(natural, result, 2, 3, 2, 8, 2, 9, 8, 6, True, True, False, none),
                *(halves, halves, long),
                beats=4,
            ),
            # Two heads, five tokens in beats of two.
            replace(rows(2, 5, 18, masked=True), rows=Growth(1, 4, 10)),
        )
