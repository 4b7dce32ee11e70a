"""Sums of all elements of a row up to each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mase_hw.cells._base import Cell, Port, fact
from mase_hw.cells._components import Adder, Components, Register
from mase_hw.cells._motion import Motion, Steps
from mase_hw.cells._pipeline import counter, stream_pipeline
from mase_hw.formats import Encoding


@dataclass(frozen=True)
class RunningSum(Cell):
    """One adder, and a count of the elements of a row.

    Attributes:
        data_in_0: of the elements, one a beat.
        row: elements of a row.
        out_width: bits of a sum, enough for all.
        beats: beats of one inference.
    """

    data_in_0: Encoding
    row: int
    out_width: int
    beats: int = fact(1)

    @property
    def inputs(self) -> Mapping[str, Port]:
        return {"data_in_0": Port.elements(self.data_in_0, 1, self.beats)}

    @property
    def outputs(self) -> Mapping[str, Port]:
        """The sums, of the elements' sign and fraction."""
        data = self.data_in_0
        result = Encoding(self.out_width, fraction=data.fraction, signed=data.signed)
        return {"data_out_0": Port.elements(result, 1, self.beats)}

    @property
    def motion(self) -> Motion:
        return Steps(3)

    @property
    def components(self) -> Components:
        """The adder, the sum until now, the count, and the handshakes."""
        total = Components.of(Adder(self.out_width, gated=self.row > 1), Register(self.out_width))
        count = counter(self.row) + Components.of(Register(int(self.row > 1)))
        return total + count + stream_pipeline(self.out_width, 1)

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """With a sign and without, rows of one element, and of no power of two."""
        number, natural = Encoding(5, fraction=2), Encoding(2, signed=False)
        return (cls(number, 3, 7, 9), cls(natural, 8, 5, 8), cls(natural, 1, 2, 4))
