"""What each FPGA primitive costs.

Look-up tables are counted as sites that nothing else can use:

- AMD (UG574, UltraScale CLB; UG974, UltraScale library): `LUT1` to `LUT6` are one each, although a
  placer may put two small ones into one site. `INV` is one: Yosys leaves it where no table absorbed
  it. A distributed memory or shift register is the tables that hold it. `MUXF7` to `MUXF9` are
  none.
- Lattice (FPGA-TN-02209, ECP5 memory; FPGA-DS-02012, ECP5 family): `CCU2C` is two, because a carry
  slice's tables do its sum. `TRELLIS_DPR16X4` is six: four hold data, and the two of the slice
  that drives the write address cannot be used. `PFUMX` and `L6MUX21` are none.

Carry is counted in primitives: `CARRY4` and `CARRY8`, or `CCU2C` (two bits). BRAM is counted in
blocks of 36 kbit (AMD; an 18 kbit half is 0.5) or of 18 kbit (`DP16KD`).
"""

from __future__ import annotations

from collections.abc import Mapping
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
        """Return the sum."""
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


_LUT, _FF, _DSP = Resources(lut=1), Resources(ff=1), Resources(dsp=1)

_AMD_RAM_LUTS = {
    **dict.fromkeys(("RAM32X1S", "RAM64X1S"), 1),
    **dict.fromkeys(("RAM32X1D", "RAM64X1D", "RAM32X2S", "RAM128X1S"), 2),
    **dict.fromkeys(("RAM32M", "RAM64M", "RAM32X4S", "RAM128X1D", "RAM256X1S"), 4),
    **dict.fromkeys(("RAM32M16", "RAM64M8", "RAM32X8S", "RAM64X8SW", "RAM32X16DR8"), 8),
    **dict.fromkeys(("RAM256X1D", "RAM512X1S"), 8),
}

_AMD = {
    **{f"LUT{inputs}": _LUT for inputs in range(1, 7)},
    **dict.fromkeys(("INV", "SRL16E", "SRLC16E", "SRLC32E"), _LUT),
    **{name: Resources(lut=luts) for name, luts in _AMD_RAM_LUTS.items()},
    **dict.fromkeys(("FDRE", "FDSE", "FDCE", "FDPE"), _FF),
    **dict.fromkeys(("CARRY4", "CARRY8"), Resources(carry=1)),
    "DSP48E2": _DSP,
    "RAMB36E2": Resources(bram=1),
    "RAMB18E2": Resources(bram=0.5),
}

_ECP5 = {
    "LUT4": _LUT,
    "TRELLIS_FF": _FF,
    "CCU2C": Resources(lut=2, carry=1),
    "TRELLIS_DPR16X4": Resources(lut=6),
    "MULT18X18D": _DSP,
    "DP16KD": Resources(bram=1),
    "PDPW16KD": Resources(bram=1),
}

PRIMITIVES: Mapping[str, Mapping[str, Resources]] = {"xcup": _AMD, "ecp5": _ECP5}

# Wide multiplexers, buffers and constants: they take no site of the five kinds.
FREE = frozenset(
    {"MUXF7", "MUXF8", "MUXF9", "PFUMX", "L6MUX21", "BUFG", "GND", "VCC", "VLO", "VHI"}
)
