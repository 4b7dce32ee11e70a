"""Numbers compared with bounds that come with every beat, and how many each is above."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mase_hw.cells._base import Cell, Port
from mase_hw.cells._components import Adder, Compare, Components, Gates, Register
from mase_hw.cells._elementwise import Elementwise
from mase_hw.cells._motion import Motion, Steps
from mase_hw.cells._pipeline import join, stream_pipeline
from mase_hw.formats import Encoding, StreamField

# Comparisons that are counted in one cycle.
GROUP = 3


@dataclass(frozen=True)
class Thresholds(Elementwise):
    """`lowest + (bounds below the operand << shift)`.

    Attributes:
        count: bounds of an element.
        bound_width: bits of one, a signed code of the operand.
        falls: whether a bit above the bounds says that those are counted which are not below.
        lowest: the code of no bound.
        shift: what a bound adds, as a power of two.
    """

    count: int
    bound_width: int
    falls: bool
    lowest: int
    shift: int

    @property
    def word_bits(self) -> int:
        """Bits of the bounds of an element."""
        return self.count * self.bound_width + self.falls

    def packed(self, word: Sequence[Sequence[int]]) -> int:
        """Return a word of the memory: for each lane its bounds, and whether they fall."""
        mask, bits, place = (1 << self.bound_width) - 1, 0, 0
        for *bounds, falls in word:
            for bound in bounds:
                bits |= (bound & mask) << place
                place += self.bound_width
            if self.falls:
                bits |= falls << place
                place += 1
        return bits

    @property
    def inputs(self) -> Mapping[str, Port]:
        bounds = Port((StreamField("", self.lanes, self.word_bits),), self.beats)
        return {"data_in_0": self._port(self.data_in_0), "bounds": bounds}

    @property
    def motion(self) -> Motion:
        """Comparisons, their sum, in groups first where they are many, and a queue."""
        return Steps(self._stages + 2)

    @property
    def _stages(self) -> int:
        return 2 if self.count <= GROUP else 3

    @property
    def components(self) -> Components:
        """Comparisons and a count for each lane; a pipeline."""
        data, out = self.data_in_0, self.data_out_0
        width = max(data.width + (not data.signed), self.bound_width)
        groups = -(-self.count // GROUP)
        lane = Components.of((Compare(width), self.count), Register(self.count + self.falls))
        lane += Components.of((Gates(2), groups if self.count > 1 else 0))
        if groups > 1:
            lane += Components.of(
                Register(2 * groups), (Adder(self.count.bit_length()), groups - 1)
            )
        lane += Components.of(Register(out.width))
        return lane * self.lanes + join(2) + stream_pipeline(self.lanes * out.width, self._stages)

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """One bound and more, in groups; a result that falls; an operand without sign."""
        signed, unsigned = Encoding(6, fraction=3), Encoding(5, signed=False)
        return (
            cls(signed, Encoding(1, signed=False), 3, 1, 6, False, 0, 0, beats=5),
            cls(unsigned, Encoding(2), 2, 3, 6, True, -2, 0, beats=4),
            cls(signed, Encoding(6, signed=False), 1, 7, 7, True, 1, 3, beats=4),
        )
