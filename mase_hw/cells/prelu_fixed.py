"""Parametric rectifiers of fixed-point numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mase_hw.cells._base import Cell
from mase_hw.cells._components import Components, Mux, Product, Register
from mase_hw.cells._elementwise import Elementwise
from mase_hw.cells._fixed_components import bounded, rounded
from mase_hw.cells._pipeline import join, stream_pipeline
from mase_hw.formats import Encoding, Rounding


@dataclass(frozen=True)
class PreluFixed(Elementwise):
    """Negative elements are multiplied by slopes that come with every beat.

    Attributes:
        weight: encoding of the slopes.
    """

    latency = 6
    weight: Encoding

    @property
    def multipliers(self) -> int:
        return self.lanes

    @property
    def components(self) -> Components:
        """A product and a cast, and another cast beside it, for each lane; a pipeline."""
        data, slope, out = self.data_in_0, self.weight, self.data_out_0
        left, right = data.width + (not data.signed), slope.width + (not slope.signed)
        scaled = rounded(left + right, data.fraction + slope.fraction, out)
        kept = rounded(left, data.fraction, out, unsigned=not data.signed)
        lane = Components.of(Register(data.width * 2 + slope.width), Product(left, right))
        lane += Components.of(Register(left + right + scaled.stored + kept.stored + data.signed))
        lane += (
            scaled.components
            + kept.components
            + bounded(scaled, out)
            + Components.of(Mux(2, out.width))
        )
        return lane * self.lanes + join(2) + stream_pipeline(self.lanes * out.width, 4)

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """Slopes with a sign and without one."""
        data, slope = Encoding(6, fraction=3), Encoding(5, fraction=4, signed=False)
        floor = Encoding(7, fraction=2, rounding=Rounding.FLOOR)
        return (cls(data, floor, 3, slope, beats=5), cls(data, data, 1, data, beats=4))
