"""Fixed-point numbers in another fixed-point format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mase_hw.cells._base import Cell
from mase_hw.cells._components import Components, Negation
from mase_hw.cells._elementwise import Elementwise
from mase_hw.cells._fixed_components import cast
from mase_hw.cells._pipeline import stream_pipeline
from mase_hw.formats import Encoding, Overflow, Rounding


@dataclass(frozen=True)
class CastFixed(Elementwise):
    """A cast of every element, or of its negative.

    Attributes:
        negate: whether the sign changes.
    """

    negate: bool = False

    @property
    def components(self) -> Components:
        """A rounding and a bound for each lane, and a pipeline of two stages."""
        data, out = self.data_in_0, self.data_out_0
        width = data.width + (self.negate or not data.signed)
        lane = cast(width, data.fraction, out, unsigned=not data.signed and not self.negate)
        if self.negate:
            lane += Components.of(Negation(width, chosen=False))
        return lane * self.lanes + stream_pipeline(self.lanes * out.width, 2)

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """To fewer and to more bits, with either sign."""
        wide, narrow = Encoding(9, fraction=5), Encoding(5, fraction=2, rounding=Rounding.FLOOR)
        unsigned = Encoding(6, fraction=3, signed=False, overflow=Overflow.WRAP)
        return (
            cls(wide, narrow, 3, beats=5),
            cls(unsigned, wide, 1, beats=4),
            cls(wide, unsigned, 2, True, beats=4),
        )
