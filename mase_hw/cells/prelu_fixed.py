"""Parametric rectifiers of fixed-point numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mase_hw.cells._base import Cell
from mase_hw.cells._elementwise import Elementwise
from mase_hw.formats import Encoding, Rounding


@dataclass(frozen=True)
class PreluFixed(Elementwise):
    """Negative elements are multiplied by slopes that come with every beat.

    Attributes:
        weight: encoding of the slopes.
    """

    latency: ClassVar[int] = 6
    weight: Encoding

    @property
    def multipliers(self) -> int:
        """One for each lane."""
        return self.lanes

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """Slopes with a sign and without one."""
        data, slope = Encoding(6, fraction=3), Encoding(5, fraction=4, signed=False)
        floor = Encoding(7, fraction=2, rounding=Rounding.FLOOR)
        return (cls(data, floor, 3, slope, beats=5), cls(data, data, 1, data, beats=4))
