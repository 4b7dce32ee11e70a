"""Neighbouring elements of every row, shifted to the first lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mase_hw.cells._base import Cell, Origin, Origins, Port, fact
from mase_hw.cells._components import Compare, Components, Gates, Pointer, Register
from mase_hw.cells._motion import Motion, Select
from mase_hw.cells._pipeline import stream_register
from mase_hw.formats import Encoding


@dataclass(frozen=True)
class Crop(Cell):
    """A shift of the lanes; elements before and behind are dropped as they come.

    Attributes:
        width: bits of an element.
        lanes: elements of a beat.
        size_in: elements of a row that enters.
        size_out: elements of a row that leaves.
        start: the first element that stays.
        rows: rows of one inference.
    """

    width: int
    lanes: int
    size_in: int
    size_out: int
    start: int
    rows: int = fact(1)

    def _beats(self, elements: int) -> int:
        return -(-elements // self.lanes)

    @property
    def inputs(self) -> Mapping[str, Port]:
        beats = self.rows * self._beats(self.size_in)
        return {"data_in_0": Port.elements(Encoding(self.width), self.lanes, beats)}

    @property
    def outputs(self) -> Mapping[str, Port]:
        beats = self.rows * self._beats(self.size_out)
        return {"data_out_0": Port.elements(Encoding(self.width), self.lanes, beats)}

    @property
    def motion(self) -> Motion:
        """A result follows the last of its lanes."""
        first = self._beats(self.start)
        last = range(first, first + self._beats(self.size_out))
        return Select(self._beats(self.size_in), tuple(last))

    @property
    def components(self) -> Components:
        """What counts beats, the lanes that wait for the next beat, a register of a stream."""
        shift = self.start % self.lanes
        count = (self._beats(self.size_in) + 1).bit_length()
        control = Components.of(Pointer(count), (Compare(count, constant=True), 3), Gates(3))
        first = self._beats(self.start)
        rest = first + self._beats(self.size_out) > self._beats(self.size_in)
        held = Register((self.lanes - shift) * self.width * (shift > 0) + rest)
        return control + Components.of(held) + stream_register(self.lanes * self.width)

    @property
    def origins(self) -> Origins:
        """The elements that stay, in the first lanes."""
        beats = self._beats(self.size_in)
        rows = []
        for row in range(self.rows):
            for place in range(0, self._beats(self.size_out) * self.lanes, self.lanes):
                elements = range(self.start + place, self.start + place + self.lanes)
                rows.append([self._origin(row * beats, element) for element in elements])
        return rows

    def _origin(self, beats: int, element: int) -> Origin | None:
        """Beat and lane in which an element of a row enters, None for one that is dropped."""
        if element >= self.start + self.size_out:
            return None
        return Origin("data_in_0", beats + element // self.lanes, element % self.lanes)

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """Whole beats, parts of two, and a rest behind the row."""
        return (
            cls(5, 2, 8, 4, 2, rows=3),
            cls(5, 3, 10, 5, 4, rows=3),
            cls(5, 4, 10, 1, 9, rows=4),
            cls(5, 4, 10, 7, 3, rows=3),
        )

    @classmethod
    def proofs(cls) -> Sequence[Cell]:
        """The samples with fewer bits, row by row."""
        return [replace(cell, width=1, rows=1) for cell in cls.samples() if isinstance(cell, cls)]
