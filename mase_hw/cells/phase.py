"""Phases of fixed-point angles, modulo a turn and mirrored into the quarters around zero."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mase_hw.cells._base import Cell
from mase_hw.cells._components import Components, Gates, Offset, Product, Register
from mase_hw.cells._elementwise import Elementwise
from mase_hw.cells._pipeline import stream_pipeline
from mase_hw.formats import Encoding


@dataclass(frozen=True)
class Phase(Elementwise):
    """A product with a constant whose upper bits are lost, and an inversion.

    Attributes:
        phase_width: bits of the product, which is in parts of a turn.
        rate_low: turns of a step of the operand, modulo one: the lower 32 bits, signed.
        rate_high: the bits above them.
        quarters: quarter turns that are added.
    """

    phase_width: int
    rate_low: int
    rate_high: int
    quarters: int

    @property
    def multipliers(self) -> int:
        return self.lanes

    @property
    def components(self) -> Components:
        """A product, a quarter more, and a mirrored phase for each lane; a pipeline."""
        data, out = self.data_in_0, self.data_out_0
        lane = Components.of(
            Product(data.width + 1, self.phase_width),
            Register(out.width + 1),
            (Offset(2, 1), int(self.quarters > 0)),
            Gates(out.width),
            Register(out.width),
        )
        return lane * self.lanes + stream_pipeline(self.lanes * out.width, 2)

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """Signed and unsigned angles, ahead by no quarter, by one and by three."""
        data, unsigned = Encoding(9, fraction=3), Encoding(7, signed=False)
        return (
            cls(data, Encoding(8, fraction=9), 3, 20, 20861, 0, 0, beats=5),
            cls(unsigned, Encoding(7, fraction=8), 1, 40, -1234567, 40, 1, beats=4),
            cls(data, Encoding(7, fraction=8), 1, 8, 41, 0, 3, beats=4),
        )
