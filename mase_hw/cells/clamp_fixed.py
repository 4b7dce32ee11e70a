"""Bounded fixed-point numbers, `min(max(x, low), high)`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mase_hw.cells._base import Cell
from mase_hw.cells._components import Components, Register, Saturation
from mase_hw.cells._elementwise import Elementwise
from mase_hw.cells._fixed_components import bounded, clip, comparisons, rounded
from mase_hw.cells._motion import Motion, Steps
from mase_hw.cells._pipeline import stream_pipeline
from mase_hw.formats import Encoding, Overflow


@dataclass(frozen=True)
class ClampFixed(Elementwise):
    """A cast and two bounds.

    Attributes:
        low: the lower bound, the pattern of a code as a signed number of 32 bits.
        high: the upper one.
        bounds_on_result: whether they are codes of the result, else of the operand.
    """

    low: int
    high: int
    bounds_on_result: bool

    @property
    def motion(self) -> Motion:
        """A cast and bounds, registers before and behind their comparisons, and a queue."""
        return Steps(self._stages + 2)

    @property
    def _stages(self) -> int:
        bounds = self.data_out_0 if self.bounds_on_result else self.data_in_0
        if not comparisons(bounds, self.low, self.high):
            return 2
        return 4 if self.bounds_on_result else 3

    @property
    def components(self) -> Components:
        """For each lane a clip, a rounding and a bound; a pipeline."""
        data, out = self.data_in_0, self.data_out_0
        width = data.width + (not data.signed)
        number = rounded(width, data.fraction, out, unsigned=not data.signed)
        if self.bounds_on_result:
            registers = Components.of(Register(number.stored))
            saturated = any(isinstance(item, Saturation) for item, _ in bounded(number, out).items)
            shared = saturated and self._stages == 2
            clipped = clip(out, self.low, self.high, shared=shared)
            if self._stages > 2:
                clipped += Components.of(Register(min(number.stored, out.width)))
        else:
            registers = Components.of(Register(data.width))
            clipped = clip(data, self.low, self.high)
        lane = number.components + registers + clipped + bounded(number, out)
        return lane * self.lanes + stream_pipeline(self.lanes * out.width, self._stages)

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """Bounds on either side, signed and not."""
        signed, unsigned = Encoding(8, fraction=4), Encoding(6, fraction=3, signed=False)
        wrapping = Encoding(5, fraction=2, overflow=Overflow.WRAP)
        return (
            cls(signed, unsigned, 3, 0, 40, True, beats=5),
            cls(unsigned, signed, 1, 3, 100, True, beats=4),
            cls(signed, wrapping, 2, -20, 17, False, beats=4),
        )
