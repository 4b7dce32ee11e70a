"""What is written round a design, all at once: bus ports, a board, other tools' files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mase_hw.deploy.board import Board, write_board
from mase_hw.deploy.bus import Bus, BusOptions, write_bus
from mase_hw.deploy.plain import write_plain
from mase_hw.deploy.projects import write_projects
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
