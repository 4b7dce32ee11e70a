"""The five resources that a design is counted in.

Look-up tables are counted as sites that nothing else can use. What a primitive of a family takes is
in the file of the family, in `mase_hw.hardware.targets`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Resources:
    """Resources of a part of a design; `bram` may be half a block."""

    lut: int = 0
    ff: int = 0
    carry: int = 0
    dsp: int = 0
    bram: float = 0.0

    def __add__(self, other: Resources) -> Resources:
        return Resources(
            self.lut + other.lut,
            self.ff + other.ff,
            self.carry + other.carry,
            self.dsp + other.dsp,
            self.bram + other.bram,
        )

    def __mul__(self, count: int) -> Resources:
        """Return `count` times these resources."""
        return Resources(
            self.lut * count,
            self.ff * count,
            self.carry * count,
            self.dsp * count,
            self.bram * count,
        )

    def to_dict(self) -> dict[str, int | float]:
        """Return `lut, ff, carry, dsp, bram`; a whole number of blocks is an integer."""
        bram = int(self.bram) if self.bram == int(self.bram) else self.bram
        return {
            "lut": self.lut,
            "ff": self.ff,
            "carry": self.carry,
            "dsp": self.dsp,
            "bram": bram,
        }


LUT, FF, DSP = Resources(lut=1), Resources(ff=1), Resources(dsp=1)
