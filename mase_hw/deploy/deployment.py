"""What is written round a design, all at once: bus ports, a board, other tools' files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from mase_hw._resources import template_environment
from mase_hw.deploy.board import Board, write_board
from mase_hw.deploy.bus import Bus, BusOptions, write_bus
from mase_hw.deploy.plain import FOLDER as PLAIN
from mase_hw.deploy.plain import entry_of, write_plain
from mase_hw.emit.design import DesignSummary

# Of constraints for which no clock is asked.
CLOCK_MHZ = 100.0


@dataclass(frozen=True)
class Deployment:
    """Additions to a project.

    Attributes:
        bus: bus ports.
        board: the board that the design is for; its serial line is the bus then.
        verilog: plain Verilog too, with a testbench.
        projects: files of FuseSoC, Vivado, Quartus and LiteX too; needs the plain Verilog.
        clock_mhz: that their constraints ask for; it says nothing of what a device reaches.
    """

    bus: BusOptions | None = None
    board: Board | None = None
    verilog: bool = False
    projects: bool = False
    clock_mhz: float = CLOCK_MHZ

    def __call__(self, folder: Path, summary: DesignSummary) -> None:
        """Write all of it into a project."""
        options = BusOptions("uart") if self.board else self.bus
        bus = Bus.of(folder, summary, options) if options else None
        if bus is not None:
            write_bus(folder, summary, bus)
        if self.board is not None:
            write_board(folder, summary, self.board)
        if self.verilog or self.projects:
            write_plain(folder, summary, bus)
        if self.projects:
            write_projects(folder, summary, bus, self.clock_mhz)


FOLDER = "project"
# What the scripts of Vivado and Quartus are for.
PARTS = {"xdc": "xczu7ev-ffvc1156-2-e", "sdc": "AGFB014R24B2E2V"}


def write_projects(folder: Path, summary: DesignSummary, bus: Bus | None, clock_mhz: float) -> None:
    """Write `NAME.core` and `project/`; the plain Verilog must be there already.

    Args:
        folder: the project.
        summary: its `design.json`.
        bus: its bus ports.
        clock_mhz: the clock of the constraints.
    """
    entry, environment = entry_of(bus), template_environment()
    target = folder / FOLDER
    target.mkdir()
    name = re.sub(r"\W", "_", summary.name)
    given = {
        "name": name,
        "module": entry.module,
        "bus": bus if bus and bus.kind.registers else None,
        "parts": PARTS,
        "sources": (folder / entry.files).read_text().split(),
        "memories": _below(folder, "mem"),
        "vectors": _below(folder, PLAIN),
    }
    core = environment.get_template("project.core.j2").render(given)
    (folder / f"{name}.core").write_text(core)
    script = environment.get_template("package_ip.tcl.j2").render(given)
    (target / "package_ip.tcl").write_text(script)
    clock = "aclk" if given["bus"] else "clk"
    line = f"create_clock -name {clock} -period {1000 / clock_mhz:.3f} [get_ports {clock}]\n"
    if bus is not None and bus.options.own_clock:
        line += line.replace("aclk", "core_clk")
        line += "set_clock_groups -asynchronous -group {aclk} -group {core_clk}\n"
    for suffix, part in PARTS.items():
        head = f"# {part}: {clock_mhz:g} MHz is what was asked for, not what the design reaches.\n"
        (target / f"clock.{suffix}").write_text(head + line)
    if bus and bus.kind.has_streams:
        module = environment.get_template("litex_module.py.j2").render(given)
        (target / f"litex_{name}.py").write_text(module)


def _below(folder: Path, name: str) -> list[str]:
    """Return the memory images in a folder of the project, and their paths from it."""
    return [path.relative_to(folder).as_posix() for path in sorted((folder / name).glob("*.mem"))]
