"""A choice between two fixed-point numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mase_hw.cells._base import Cell
from mase_hw.cells._components import Components, Mux
from mase_hw.cells._elementwise import Elementwise
from mase_hw.cells._fixed_components import cast
from mase_hw.cells._pipeline import join, stream_pipeline
from mase_hw.formats import Encoding, Rounding


@dataclass(frozen=True)
class WhereFixed(Elementwise):
    """The first operand where the third is not zero, else the second.

    Attributes:
        data_in_1: encoding of the second operand.
        data_in_2: encoding of the third.
    """

    data_in_1: Encoding
    data_in_2: Encoding

    @property
    def components(self) -> Components:
        """A choice and its cast for each lane, and a pipeline."""
        first, second, out = self.data_in_0, self.data_in_1, self.data_out_0
        fraction = max(first.fraction, second.fraction)
        width = max(
            item.width + (not item.signed) + fraction - item.fraction for item in (first, second)
        )
        lane = Components.of(Mux(2, width)) + cast(width, fraction, out)
        return lane * self.lanes + join(3) + stream_pipeline(self.lanes * out.width, 2)

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        first, second = Encoding(6, fraction=4), Encoding(5, fraction=1, signed=False)
        kept, floor = Encoding(2, signed=False), Encoding(5, fraction=2, rounding=Rounding.FLOOR)
        return (
            cls(first, floor, 3, second, kept, beats=5),
            cls(second, first, 1, first, first, beats=4),
        )
