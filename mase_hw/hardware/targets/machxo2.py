"""Lattice MachXO2 and MachXO3.

They have no multipliers, and the fabric of ECP5: see `mase_hw.hardware.targets.ecp5` for what a
primitive takes. BRAM is counted in blocks of 9 kbit.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from mase_hw.errors import RoutingError
from mase_hw.hardware._primitives import FF, LUT, Resources
from mase_hw.hardware.targets._base import Part, RoutableTarget
from mase_hw.hardware.targets._trellis import KINDS, MEMORY, located, pin_names

_WITHOUT_DATABASE = ("LCMXO3LF-6900C",)
_PACKAGES = {"TG144": "TQFP144", "MG132": "CSBGA132", "TG100": "TQFP100", "SG32": "QFN32"}


class Machxo2(RoutableTarget):
    """The devices that nextpnr of PyPI has a database of."""

    name = "machxo2"
    title = "Lattice MachXO2 and MachXO3"
    primitives: ClassVar[Mapping[str, Resources]] = {
        "LUT4": LUT,
        "TRELLIS_FF": FF,
        "CCU2D": Resources(lut=2, carry=1),
        "TRELLIS_DPR16X4": Resources(lut=6),
        **dict.fromkeys(("DP8KC", "PDPW8KC"), Resources(bram=1)),
    }
    free = frozenset({"PFUMX", "L6MUX21", "VLO", "VHI"})
    distribution = "yowasp-nextpnr-machxo2"
    parts: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "LCMXO2-1200HC": tuple(_PACKAGES),
        "LCMXO3LF-6900C": ("BG256", "BG324", "BG400"),
    }
    device = "LCMXO3LF-6900C"
    speeds = ("5", "6")
    clock_mhz = 100.0
    kinds = (MEMORY, *KINDS)
    resources: ClassVar[Mapping[str, str]] = {
        "LUT": "TRELLIS_COMB",
        "FF": "TRELLIS_FF",
        "BRAM": "DP8KC",
    }
    pins = "TRELLIS_IO"
    constraints = ("--lpf", "{}")
    free_pins = ("--lpf-allow-unconstrained",)

    def synthesis(self, part: Part | None, *, dsp: bool) -> str:
        device = part.device if part else self.device
        return f"synth_lattice -family {'xo3' if device.startswith('LCMXO3') else 'xo2'}"

    def arguments(self, part: Part) -> list[str]:
        return ["--device", f"{part.device}-{part.speed}{part.package}C"]

    def pin_names(self, part: Part) -> list[str]:
        if part.device in _WITHOUT_DATABASE:
            return []
        folder = f"MachXO2/{part.device.removesuffix('HC')}"
        return pin_names(self.distribution, folder, _PACKAGES[part.package])

    def locate(self, port: str, pin: str) -> str:
        return located(port, pin)

    def layout(self, path: Path) -> list[str]:
        return ["--textcfg", str(path)]

    def packer(self, layout: Path, bitstream: Path, part: Part) -> tuple[str, list[str]]:
        """Return the program that writes a bitstream, of the same distribution.

        Raises:
            RoutingError: for a device that it has no database of.
        """
        if part.device in _WITHOUT_DATABASE:
            can = [device for device in self.parts if device not in _WITHOUT_DATABASE]
            raise RoutingError(
                f"the packer of {self.distribution} has no database of {part.device}, so there is "
                f"no bitstream; it has one of {', '.join(can)}"
            )
        return "yowasp-xo2pack", [str(layout), str(bitstream)]
