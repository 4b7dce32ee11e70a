"""Boards: one data file each, and the design with a serial line on them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from importlib.metadata import entry_points
from pathlib import Path

from mase_hw._config_file import read_toml
from mase_hw._kinds import Table
from mase_hw._resources import template_environment
from mase_hw.deploy.driver.frames import HEADER
from mase_hw.deploy.packets import Packet
from mase_hw.emit.design import Design, DesignSummary
from mase_hw.errors import ConfigError
from mase_hw.hardware.route import RouteReport, find_part, routable, route
from mase_hw.hardware.synth import Entry
from mase_hw.registry import nearest

BOARD_FOLDER = "board"
PINS = ("clk", "rx", "tx")
BUDGETS = ("max_lut", "max_dsp", "max_bram")
LEAST_CLOCKS = 4
# Of a byte on the line, and of a frame without its payload.
BYTE_BITS, FRAME_BYTES = 10, HEADER.size + 4
# Nodes that a message lists.
MOST_NAMED = 6
# Of a bit; a receiver looks at the middle of ten bits.
MOST_ERROR = 0.02
MOST_BAUD = 1_000_000_000


@dataclass(frozen=True)
class Board:
    """A board.

    Attributes:
        name: the word a command uses.
        title: what people call it.
        target: family of its FPGA, of `mase_hw.hardware.targets`.
        device: its FPGA.
        clock_mhz: the clock that it makes.
        pins: of `clk`, `rx` and `tx`.
        package: package of the FPGA; empty where the device says it.
        speed: speed grade; empty where the device says it.
        baud: bits a second of the serial line.
        budget: what `auto` may take: `max_lut`, `max_dsp`, `max_bram`.
    """

    name: str
    title: str
    target: str
    device: str
    clock_mhz: float
    pins: Mapping[str, str]
    package: str = ""
    speed: str = ""
    baud: int = 115_200
    budget: Mapping[str, float] | None = None

    @property
    def clocks_per_bit(self) -> int:
        """Cycles of a bit of the serial line."""
        return round(self.clock_mhz * 1e6 / self.baud)

    def line_cycles(self, design: Design) -> int:
        """Return the cycles that both frames of one inference take on the serial line."""
        packets = [Packet.of(stream, 8).bytes for stream in (*design.inputs, *design.outputs)]
        return BYTE_BITS * self.clocks_per_bit * (2 * FRAME_BYTES + sum(packets))

    @property
    def constraints(self) -> str:
        """The pins, in the family's own format."""
        family = routable(self.target)
        return "".join(family.locate(port, self.pins[port]) for port in PINS)

    def check(self, where: str) -> None:
        """Raise unless the board can be, and its values can stand in Verilog and constraints.

        Raises:
            ConfigError: naming the file and the key.
        """
        if not self.title.isprintable():
            raise ConfigError(f"{where}: title is {self.title!r}; allowed: one line of text")
        if set(self.pins) != set(PINS):
            raise ConfigError(
                f"{where}: [pins] has {', '.join(self.pins) or 'nothing'}; it must have exactly "
                f"{', '.join(PINS)}"
            )
        for port, pin in self.pins.items():
            if not (isinstance(pin, str) and re.fullmatch(r"\w+", pin, re.ASCII)):
                raise ConfigError(
                    f"{where}: the pin of {port} is {pin!r}; allowed: a text of letters and digits"
                )
        pin, uses = Counter(self.pins.values()).most_common(1)[0]
        if uses > 1:
            ports = [port for port, name in self.pins.items() if name == pin]
            raise ConfigError(f"{where}: pin {pin} is given to {' and '.join(ports)}")
        unknown = sorted(set(self.budget or {}) - set(BUDGETS))
        if unknown:
            raise ConfigError(f"{where}: [budget] has {unknown[0]}; known: {', '.join(BUDGETS)}")
        for key, value in (self.budget or {}).items():
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not (is_number and 0 <= value < math.inf):
                raise ConfigError(f"{where}: {key} is {value!r}; allowed: a number from 0")
        if not 0 < self.clock_mhz < 1000:
            raise ConfigError(f"{where}: clock_mhz is {self.clock_mhz}; allowed: 0 to 1000")
        if not 1 <= self.baud <= MOST_BAUD:
            raise ConfigError(f"{where}: baud is {self.baud}; allowed: 1 to {MOST_BAUD}")
        made = self.clock_mhz * 1e6 / max(1, self.clocks_per_bit)
        if self.clocks_per_bit < LEAST_CLOCKS or abs(made / self.baud - 1) > MOST_ERROR:
            raise ConfigError(
                f"{where}: {self.baud:,} baud cannot be made of {self.clock_mhz:g} MHz to "
                f"{MOST_ERROR:.0%}; take a lower rate, or one that divides the clock"
            )
        family = routable(self.target)
        find_part(family, self.device, self.speed or None, self.package or None)


def boards() -> dict[str, Path]:
    """Return the files of all boards: those of this package, and of entry points."""
    found = {path.stem: path for path in Path(__file__).with_name("boards").glob("*.toml")}
    for entry in entry_points(group="mase_hw.boards"):
        found[entry.name] = Path(str(entry.load()))
    return dict(sorted(found.items()))


def load_board(name: str) -> Board:
    """Return a board by its name, or that of a user's own file.

    Raises:
        ConfigError: when there is none, or its file is wrong.
    """
    path = Path(name) if name.endswith(".toml") else boards().get(name)
    if path is None:
        raise ConfigError(
            f"no board is called {name!r}; {nearest(name, boards())}; or give a .toml file of yours"
        )
    board = _board(path, read_toml(path))
    board.check(str(path))
    return board


def _board(path: Path, table: Table) -> Board:
    known = {item.name for item in fields(Board)} - {"name"}
    unknown = sorted(set(table) - known)
    if unknown:
        raise ConfigError(f"{path} has {unknown[0]!r}; {nearest(unknown[0], known)}")
    missing = [
        name for name in ("title", "target", "device", "clock_mhz", "pins") if name not in table
    ]
    if missing:
        raise ConfigError(f"{path} lacks {missing[0]!r}")
    kinds = {"pins": dict, "budget": dict, "clock_mhz": (int, float), "baud": int}
    for key, value in table.items():
        kind = kinds.get(key, str)
        if not isinstance(value, kind) or isinstance(value, bool):  # type: ignore[arg-type]
            raise ConfigError(f"{path}: {key} is {value!r}, of the wrong type")
    return Board(path.stem, **table)


def with_clock(board: Board, clock_mhz: float | None) -> Board:
    """Return the board at a clock that is asked for.

    Raises:
        ConfigError: for a clock that it does not make.
    """
    if clock_mhz is None or clock_mhz == board.clock_mhz:
        return board
    raise ConfigError(
        f"{board.title} makes a clock of {board.clock_mhz:g} MHz; {clock_mhz:g} MHz was asked for: "
        "leave --clock out, or describe a board with that oscillator in a file of yours"
    )


def write_board(folder: Path, summary: DesignSummary, board: Board) -> None:
    """Write the top of a board round a design with a serial line, its pins, and its sources."""
    board.check(f"board {board.name!r}")
    target = folder / BOARD_FOLDER
    target.mkdir()
    text = template_environment().get_template("board.sv.j2").render(board=board, name=summary.name)
    (target / "board.sv").write_text(text)
    (target / "pins.txt").write_text(board.constraints)
    files = (folder / "bus" / "files.f").read_text()
    (target / "files.f").write_text(f"{files}{BOARD_FOLDER}/board.sv\n")


def fitting(board: Board, design: Design) -> str:
    """Return what parallelism a design has that fits the budget of a board, as text."""
    chosen = [f"{node.multipliers} at {node.node}" for node in design.nodes if node.multipliers > 1]
    more = [f"{len(chosen) - MOST_NAMED} others"] if len(chosen) > MOST_NAMED else []
    listed = ", ".join([*chosen[:MOST_NAMED], *more])
    return f"{board.title} has room for these multipliers: {listed or '1 a layer'}"


def make_bitstream(
    folder: Path,
    board: Board,
    bitstream: Path,
    *,
    seeds: int = 1,
    progress: Callable[[str], None] | None = None,
) -> RouteReport:
    """Synthesize, place and route a project with a board, and write its bitstream.

    Raises:
        RoutingError: when it does not fit, or does not reach the clock.
    """
    report = route(
        folder,
        board.target,
        device=board.device,
        speed=board.speed or None,
        package=board.package or None,
        seeds=seeds,
        clock_mhz=board.clock_mhz,
        bitstream=bitstream,
        constraints=folder / BOARD_FOLDER / "pins.txt",
        progress=progress,
        entry=Entry("board", f"{BOARD_FOLDER}/files.f", "board.u_design.u_top"),
    )
    report.check_clock()
    return report
