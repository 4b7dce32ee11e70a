"""Floats as their places in the order of all floats, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mase_hw.cells._base import Cell
from mase_hw.cells._components import Components, Negation
from mase_hw.cells._elementwise import Elementwise
from mase_hw.cells._pipeline import stream_register
from mase_hw.formats import Encoding, Kind


@dataclass(frozen=True)
class FloatOrder(Elementwise):
    """A negation of what has a sign, and a register."""

    latency = 2

    @property
    def components(self) -> Components:
        """A negation for each lane, and the handshakes."""
        width = self.data_in_0.width
        return Components.of((Negation(width), self.lanes)) + stream_register(self.lanes * width)

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        floats = Encoding(6, Kind.FLOAT, exponent_width=3, exponent_bias=3, maximum_code=31)
        return cls(floats, Encoding(6), 3, beats=9), cls(Encoding(6), floats, 2, beats=9)
