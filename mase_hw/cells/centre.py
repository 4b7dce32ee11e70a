"""Integers without their zero point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mase_hw.cells._base import Cell, Port, fact
from mase_hw.cells._components import Components, Offset
from mase_hw.cells._motion import Motion, Steps
from mase_hw.formats import Encoding, Kind


@dataclass(frozen=True)
class Centre(Cell):
    """`data_out_0 = data_in_0 - zero_point`, a bit wider.

    Attributes:
        data_in_0: encoding of the codes.
        lanes: elements of a beat.
        beats: beats of an inference.
    """

    data_in_0: Encoding
    lanes: int
    beats: int = fact()

    @property
    def inputs(self) -> Mapping[str, Port]:
        return {"data_in_0": Port.elements(self.data_in_0, self.lanes, self.beats)}

    @property
    def outputs(self) -> Mapping[str, Port]:
        return {"data_out_0": Port.elements(self.result, self.lanes, self.beats)}

    @property
    def result(self) -> Encoding:
        """The encoding of the integers."""
        return Encoding(self.data_in_0.width + 1)

    @property
    def components(self) -> Components:
        """A sum with a constant for each lane."""
        width = self.data_in_0.width + 1
        ones = (-self.data_in_0.zero_point % (1 << width)).bit_count()
        return Components.of((Offset(width, ones), self.lanes))

    @property
    def motion(self) -> Motion:
        return Steps(0)

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        signed = cls(Encoding(6, Kind.OFFSET, zero_point=-3), 2, 9)
        return (signed, replace(signed, data_in_0=replace(signed.data_in_0, signed=False)))
