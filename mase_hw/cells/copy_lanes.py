"""One lane copied to many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mase_hw.cells._base import Cell, Origin, Origins, Port, fact
from mase_hw.cells._components import NOTHING, Components
from mase_hw.cells._motion import Motion, Steps
from mase_hw.formats import Encoding


@dataclass(frozen=True)
class CopyLanes(Cell):
    """Wires from the lanes of a beat to those of a larger one.

    Attributes:
        width: bits of an element.
        rows_in: rows of a beat that enters: 1, or as many as leave.
        columns_in: elements of a row that enters, likewise.
        rows_out: rows of a beat that leaves.
        columns_out: elements of a row that leaves.
        beats: beats of one inference.
    """

    width: int
    rows_in: int
    columns_in: int
    rows_out: int
    columns_out: int
    beats: int = fact(1)

    @property
    def inputs(self) -> Mapping[str, Port]:
        lanes = self.rows_in * self.columns_in
        return {"data_in_0": Port.elements(Encoding(self.width), lanes, self.beats)}

    @property
    def outputs(self) -> Mapping[str, Port]:
        lanes = self.rows_out * self.columns_out
        return {"data_out_0": Port.elements(Encoding(self.width), lanes, self.beats)}

    @property
    def components(self) -> Components:
        return NOTHING

    @property
    def motion(self) -> Motion:
        return Steps(0)

    @property
    def origins(self) -> Origins:
        """The lane of the same row and column, or the only one."""
        places = [
            (row % self.rows_in) * self.columns_in + column % self.columns_in
            for row in range(self.rows_out)
            for column in range(self.columns_out)
        ]
        return [
            [Origin("data_in_0", beat, place) for place in places] for beat in range(self.beats)
        ]

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """A row, a column, a single lane."""
        return (cls(5, 1, 3, 2, 3, 6), cls(5, 2, 1, 2, 3, 6), cls(5, 1, 1, 2, 3, 6))
