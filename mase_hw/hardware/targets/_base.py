"""The contract of an FPGA family: how it is synthesized for, and how it is placed and routed."""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from mase_hw.errors import SynthesisError
from mase_hw.hardware._primitives import Resources

Kinds = tuple[tuple[re.Pattern[str], str], ...]


@dataclass(frozen=True)
class Part:
    """One FPGA of a family.

    Attributes:
        device: the maker's name, without grade and package.
        speed: speed grade; empty where the device says it.
        package: package; empty where the device says it.
    """

    device: str
    speed: str
    package: str

    def __str__(self) -> str:
        """Return device, grade and package."""
        speed = f" speed {self.speed}" if self.speed else ""
        return f"{self.device}{speed}{f' {self.package}' if self.package else ''}"


def yosys_share() -> Path:
    """Return the folder of what comes with Yosys, which is not loaded.

    Raises:
        SynthesisError: when Yosys is not installed.
    """
    spec = find_spec("pyosys")
    if spec is None or spec.origin is None:
        raise SynthesisError("Yosys is not installed: pip install pyosys")
    return Path(spec.origin).parent / "share"


class Target(ABC):
    """An FPGA family that Yosys synthesizes for: one file of this folder.

    Attributes:
        name: the word a command uses.
        title: maker and family.
        primitives: what each primitive of a netlist takes; see `mase_hw.hardware._primitives`.
        free: primitives that take none of that: multiplexers of wide tables, buffers, constants.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    primitives: ClassVar[Mapping[str, Resources]]
    free: ClassVar[frozenset[str]]

    @abstractmethod
    def synthesis(self, part: Part | None, *, dsp: bool) -> str:
        """Return the Yosys command, without the option that names the top.

        Args:
            part: the FPGA; None for the family's usual one, and a top without pins.
            dsp: allow multipliers in DSP blocks.
        """

    def front_end(self, *, dsp: bool) -> str:
        """Return the options of Yosys' reader; without any, modules name no block of a device.

        Args:
            dsp: allow multipliers in DSP blocks.
        """
        return "-U SYNTHESIS"

    def pads(self) -> list[str]:
        """Return Yosys commands that give pins to the ports of the selected module."""
        return []


class RoutableTarget(Target):
    """A family that nextpnr places and routes.

    Attributes:
        distribution: what PyPI calls nextpnr of the family, and what its command is called.
        parts: devices, smallest first, with the packages of each; the first package is the default.
        device: the default device.
        speeds: speed grades; the first is the default. Empty where the device says it.
        clock_mhz: the clock that is asked for where the user asks for none.
        router: the router of nextpnr that is fast and finds a way.
        out_of_context: whether nextpnr leaves ports without pins.
        kinds: what a cell of a path is, by the first pattern found in `cell.port`; where none is,
            it is logic between the ends of a path and a register at an end.
        resources: what nextpnr counts, by our name of it.
        pins: what nextpnr calls a pin.
        constraints: option that takes a file with the pins of a board: its name replaces `{}`.
        chooses_pins: whether any top gets pins without a file, from `pin_names` or by nextpnr.
        free_pins: options that let nextpnr choose pins where `pin_names` has none.
        note: what a user should know of the figures.
        wrong: a version of nextpnr before which it is known to make wrong circuits, and where that
            is reported.
    """

    distribution: ClassVar[str]
    wrong: ClassVar[tuple[str, str] | None] = None
    parts: ClassVar[Mapping[str, tuple[str, ...]]]
    device: ClassVar[str]
    speeds: ClassVar[tuple[str, ...]] = ()
    clock_mhz: ClassVar[float]
    router: ClassVar[str] = "router2"
    out_of_context: ClassVar[bool] = False
    kinds: ClassVar[Kinds]
    resources: ClassVar[Mapping[str, str]]
    pins: ClassVar[str]
    constraints: ClassVar[tuple[str, str]]
    chooses_pins: ClassVar[bool] = True
    free_pins: ClassVar[tuple[str, ...]] = ()
    note: ClassVar[str] = ""

    @abstractmethod
    def arguments(self, part: Part) -> list[str]:
        """Return the options of nextpnr that choose the part."""

    @abstractmethod
    def layout(self, path: Path) -> list[str]:
        """Return the options that write what the packer reads."""

    @abstractmethod
    def packer(self, layout: Path, bitstream: Path, part: Part) -> tuple[str, list[str]]:
        """Return the command that writes a bitstream, and its arguments.

        Raises:
            RoutingError: when there is none for the part.
        """

    def why_wrong(self, installed: str) -> str:
        """Return why a version of nextpnr is refused, and what to install; empty for others."""
        if self.wrong is None:
            return ""
        least, report = self.wrong
        numbers = [[*map(int, re.findall(r"\d+", item)[:3])] for item in (installed, least)]
        if numbers[0] >= numbers[1]:
            return ""
        return (
            f"{self.distribution} {installed} makes wrong {report}; install another one: "
            f"{sys.executable} -m pip install '{self.distribution}>={least}'"
        )

    def pin_names(self, part: Part) -> list[str]:
        """Return the pins that ports may have, one for a clock first; empty where none is known."""
        return []

    def locate(self, port: str, pin: str) -> str:
        """Return the line of a file of `constraints` that gives a port a pin."""
        raise NotImplementedError

    def mend(self, netlist: dict[str, object]) -> bool:
        """Change what nextpnr does not understand of a netlist of Yosys; say whether anything."""
        return False

    def kind(self, segment: str, cell: str, port: str) -> str:
        """Kind of a cell on a path: register, logic, carry, memory or multiplier.

        Args:
            segment: `clk-to-q`, `logic` or `setup`.
            cell: its name.
            port: the port where the path leaves it, or ends.
        """
        name = f"{cell}.{port}"
        default = "logic" if segment == "logic" else "register"
        return next((kind for pattern, kind in self.kinds if pattern.search(name)), default)
