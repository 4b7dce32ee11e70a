"""Rows of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mase_hw.cells._base import Cell, Image, Port, fact
from mase_hw.cells._components import Compare, Components, Mux, Register, Table
from mase_hw.cells._motion import Motion, Steps
from mase_hw.cells._pipeline import counter, index_bits, stream_pipeline
from mase_hw.formats import Encoding


@dataclass(frozen=True)
class Lookup(Cell):
    """The row that a number asks for, which comes once for each beat of the row.

    Attributes:
        data_in_0: of the numbers, whole and without sign.
        data_out_0: of the elements.
        lanes: elements of a beat.
        beats: beats of a row.
        rows: rows of the table.
        table: the beats of a row at its number times `beats`, rounded up to a power of two.
        total: beats of an inference.
    """

    data_in_0: Encoding
    data_out_0: Encoding
    lanes: int
    beats: int
    rows: int
    table: Image
    total: int = fact(1)

    @property
    def inputs(self) -> Mapping[str, Port]:
        return {"data_in_0": Port.elements(self.data_in_0, 1, self.total)}

    @property
    def outputs(self) -> Mapping[str, Port]:
        return {"data_out_0": Port.elements(self.data_out_0, self.lanes, self.total)}

    @property
    def images(self) -> Mapping[str, tuple[str, Image]]:
        return {"TABLE_FILE": ("table", self.table)}

    @property
    def motion(self) -> Motion:
        """The row's number, the table, a queue."""
        return Steps(5)

    @property
    def components(self) -> Components:
        """A bound of the number, the table, and a pipeline."""
        row, width = index_bits(self.rows), self.lanes * self.data_out_0.width
        bounded = self.rows < 1 << self.data_in_0.width
        bound = Components.of(Compare(self.data_in_0.width, constant=True), Mux(2, row))
        depth = self.rows << (self.beats - 1).bit_length()
        words = Table(depth, width, self.table, stages=2)
        counted = Components.of(Register(index_bits(self.beats) * (self.beats > 1))) + counter(
            self.beats
        )
        return (
            (bound * bounded)
            + Components.of(Register(row), words)
            + counted
            + stream_pipeline(width, 3)
        )

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """Rows of three beats and of one, and numbers beyond the table."""
        number, element = Encoding(3, signed=False), Encoding(5, fraction=2)
        long = Image(10, lambda: range(3, 3 + 24 * 41, 41))
        return (
            cls(number, element, 2, 3, 6, long, 9),
            cls(number, element, 1, 1, 5, Image(5, lambda: (7, 31, 4, 9, 22)), 6),
        )
