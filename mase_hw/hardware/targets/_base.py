"""The contract of an FPGA family: how it is synthesized for, and how it is placed and routed."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from mase_hw.hardware._primitives import Resources


class Target(ABC):
    """An FPGA family that Yosys synthesizes for: one file of this folder.

    Attributes:
        name: the word a command uses.
        title: maker and family.
        primitives: what each primitive of a netlist takes; see `mase_hw.hardware._primitives`.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    primitives: ClassVar[Mapping[str, Resources]]

    @abstractmethod
    def synthesis(self, *, dsp: bool, pads: bool) -> str:
        """Return the Yosys command, without the option that names the top.

        Args:
            dsp: allow multipliers in DSP blocks.
            pads: the ports of the top are pins.
        """


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


class RoutableTarget(Target):
    """A family that nextpnr places and routes.

    Attributes:
        distribution: the package of the index that holds nextpnr and the packer.
        entry: function of that package that runs nextpnr on a list of arguments.
        parts: devices, smallest first, with the packages of each; the first package is the default.
        device: the default device.
        speeds: speed grades; the first is the default. Empty where the device says it.
        clock_mhz: the clock that is asked for where the user asks for none.
        out_of_context: whether nextpnr leaves ports without pins.
        kinds: what a cell of a path is, by the first pattern that matches its last port.
        resources: what nextpnr counts, by our name of it.
        pins: what nextpnr calls a pin.
        constraints: option that takes a file with the pins of a board.
    """

    distribution: ClassVar[str]
    entry: ClassVar[str]
    parts: ClassVar[Mapping[str, tuple[str, ...]]]
    device: ClassVar[str]
    speeds: ClassVar[tuple[str, ...]] = ()
    clock_mhz: ClassVar[float]
    out_of_context: ClassVar[bool] = False
    kinds: ClassVar[tuple[tuple[re.Pattern[str], str], ...]]
    resources: ClassVar[Mapping[str, str]]
    pins: ClassVar[str]
    constraints: ClassVar[str]

    @property
    def package(self) -> str:
        """The Python package of the distribution."""
        return self.distribution.replace("-", "_")

    @abstractmethod
    def arguments(self, part: Part) -> list[str]:
        """Return the options of nextpnr that choose the part."""

    @abstractmethod
    def without_constraints(self) -> list[str]:
        """Return the options that let nextpnr choose pins."""

    @abstractmethod
    def layout(self, path: Path) -> list[str]:
        """Return the options that write what the packer reads."""

    @abstractmethod
    def packer(self, layout: Path, bitstream: Path, part: Part) -> tuple[str, str, list[str]]:
        """Return package, function and arguments of the program that writes a bitstream."""

    def kind(self, cell: str, port: str) -> str:
        """Return what a cell of a path is: register, logic, carry, memory or multiplier."""
        name = f"{cell}.{port}"
        return next((kind for pattern, kind in self.kinds if pattern.search(name)), "logic")
