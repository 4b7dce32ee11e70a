"""Functions of one operand, as a table over its bit patterns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mase_hw.cells._base import Cell, Image
from mase_hw.cells._components import Components, Table
from mase_hw.cells._elementwise import Elementwise
from mase_hw.cells._pipeline import stream_pipeline
from mase_hw.formats import Encoding, Kind


@dataclass(frozen=True)
class UnaryTable(Elementwise):
    """A memory that all lanes read.

    Attributes:
        table: the result for every bit pattern of the operand.
    """

    table: Image

    @property
    def images(self) -> Mapping[str, tuple[str, Image]]:
        return {"TABLE_FILE": ("table", self.table)}

    @property
    def components(self) -> Components:
        """The words, which all lanes read, a register, and a pipeline of two stages."""
        width = self.data_out_0.width
        words = Table(1 << self.data_in_0.width, width, self.table, stages=2, readers=self.lanes)
        return Components.of(words) + stream_pipeline(self.lanes * width, 2)

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """Squares, and the patterns of floats in reverse."""
        narrow, wide = Encoding(4), Encoding(8, signed=False)
        small = Encoding(4, Kind.FLOAT, exponent_width=2, exponent_bias=1, maximum_code=7)
        return (
            cls(narrow, wide, 3, Image(8, lambda: [code**2 for code in range(16)]), beats=5),
            cls(small, small, 1, Image(4, lambda: range(15, -1, -1)), beats=4),
        )
