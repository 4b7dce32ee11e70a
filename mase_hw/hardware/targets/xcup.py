"""AMD UltraScale+: synthesis alone, because nothing that places and routes it is on PyPI.

Look-up tables (UG574, UltraScale CLB; UG974, UltraScale library): `LUT1` to `LUT6` are one each,
although a placer may put two small ones into one site. `INV` is one: Yosys leaves it where no table
absorbed it. A distributed memory or shift register is the tables that hold it. `MUXF7` to `MUXF9`
are none. Carry is counted in `CARRY4` and `CARRY8`, BRAM in blocks of 36 kbit; an 18 kbit half is
0.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from mase_hw.hardware._primitives import DSP, FF, LUT, Resources
from mase_hw.hardware.targets._base import Part, Target, yosys_share

_RAM_LUTS = {
    **dict.fromkeys(("RAM32X1S", "RAM64X1S"), 1),
    **dict.fromkeys(("RAM32X1D", "RAM64X1D", "RAM32X2S", "RAM128X1S"), 2),
    **dict.fromkeys(("RAM32M", "RAM64M", "RAM32X4S", "RAM128X1D", "RAM256X1S"), 4),
    **dict.fromkeys(("RAM32M16", "RAM64M8", "RAM32X8S", "RAM64X8SW", "RAM32X16DR8"), 8),
    **dict.fromkeys(("RAM256X1D", "RAM512X1S"), 8),
}
# Blocks that modules of `rtl/primitives` name.
_NAMED = ("DSP48E2",)


class Xcup(Target):
    """Virtex, Kintex, Zynq and Artix UltraScale+."""

    name = "xcup"
    title = "AMD UltraScale+"
    primitives: ClassVar[Mapping[str, Resources]] = {
        **{f"LUT{inputs}": LUT for inputs in range(1, 7)},
        **dict.fromkeys(("INV", "SRL16E", "SRLC16E", "SRLC32E"), LUT),
        **{name: Resources(lut=luts) for name, luts in _RAM_LUTS.items()},
        **dict.fromkeys(("FDRE", "FDSE", "FDCE", "FDPE"), FF),
        **dict.fromkeys(("CARRY4", "CARRY8"), Resources(carry=1)),
        "DSP48E2": DSP,
        "RAMB36E2": Resources(bram=1),
        "RAMB18E2": Resources(bram=0.5),
    }
    free = frozenset({"MUXF7", "MUXF8", "MUXF9", "BUFG", "GND", "VCC"})

    def synthesis(self, part: Part | None, *, dsp: bool) -> str:
        pins = "-noiopad -noclkbuf"
        return f"synth_xilinx -family xcup {pins} -flatten{'' if dsp else ' -nodsp'}"

    def front_end(self, *, dsp: bool) -> str:
        if not dsp:
            return super().front_end(dsp=dsp)
        blocks = " ".join(f"--blackboxed-module {name}" for name in _NAMED)
        return f"{blocks} -v {yosys_share() / 'xilinx/cells_xtra.v'}"
