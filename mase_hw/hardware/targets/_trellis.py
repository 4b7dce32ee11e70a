"""What Lattice's families of one fabric share: ECP5, MachXO2 and MachXO3."""

from __future__ import annotations

import json
import re
from importlib.metadata import files

from mase_hw.errors import ToolError
from mase_hw.hardware.targets._base import Kinds

MEMORY = (re.compile(r"\.(DO[AB]?\d|DI[AB]?\d|AD[AB]?\d|(WE|CE|OCE|RST)[AB]$)"), "memory")
KINDS: Kinds = (
    (re.compile(r"\$DRAM_COMB|\$RAMW|\.(WDO?\d|WADO?\d|RAD\d)$"), "memory"),
    (re.compile(r"CCU2_COMB|\.FC[IO]$"), "carry"),
    (re.compile(r"\.CE$"), "enable of a register"),
    (re.compile(r"\.LSR$"), "reset of a register"),
)
_DATABASE = "share/trellis/database"
_CLOCK = re.compile(r"(.*/)?PCLKT")
_USUAL = re.compile(r"(.*/)?(GR_)?PCLK|.*GPLL|$")
_RESERVED = frozenset({"TDI", "TDO", "TMS", "TCK", "DONE", "INITN", "PROGRAMN", "JTAGENB"})


def pin_names(distribution: str, device: str, package: str) -> list[str]:
    """Return the pins of a package: one for a clock first, those of the configuration last.

    Args:
        distribution: the package of nextpnr, which has the database of Project Trellis.
        device: folder of the database.
        package: as the database calls it.

    Raises:
        ToolError: when the database is not where it should be.
    """
    path = f"{distribution.replace('-', '_')}/{_DATABASE}/{device}/iodb.json"
    found = next((file for file in files(distribution) or () if str(file) == path), None)
    if found is None:
        raise ToolError(f"{distribution} holds no {path}; install another version")
    database = json.loads(found.read_text())
    functions = {
        (pad["col"], pad["row"], pad["pio"]): pad.get("function", "")
        for pad in database["pio_metadata"]
    }
    pins = {
        name: functions.get((pad["col"], pad["row"], pad["pio"]), "")
        for name, pad in database["packages"][package].items()
    }
    usable = sorted(name for name in pins if not _RESERVED & set(pins[name].split("/")))
    usable.sort(key=lambda name: not _USUAL.match(pins[name]))
    clock = next(name for name in usable if _CLOCK.match(pins[name]))
    return [clock, *(name for name in usable if name != clock)]


def located(port: str, pin: str) -> str:
    """Return the lines of an LPF file that give a port a pin."""
    return f'LOCATE COMP "{port}" SITE "{pin}";\nIOBUF PORT "{port}" IO_TYPE=LVCMOS33;\n'
