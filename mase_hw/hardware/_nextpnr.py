"""Runs nextpnr on a netlist, reads its report, and says what went wrong in the user's terms.

nextpnr and its packers are WebAssembly programs from PyPI. They see the folder that they are
started in, and a `/tmp` of their own: paths are relative to that folder.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from mase_hw._kinds import Table
from mase_hw._processes import run_python
from mase_hw.errors import DoesNotFitError, RoutingError, ToolError
from mase_hw.hardware.targets import Part, RoutableTarget

NETLIST, REPORT = "netlist.json", "report.json"
# The commands of a virtual environment need not be on the PATH.
_CALL = """
import sys
from importlib.metadata import entry_points
del sys.argv[0]
sys.exit(next(iter(entry_points(group="console_scripts", name=sys.argv[0]))).load()())
"""
_STAGES = (
    (re.compile(r"Info: Packing (?P<what>[\w ]+)"), "packing"),
    (re.compile(r"Info: Creating initial"), "placing"),
    (re.compile(r"Info: +at iteration #(?P<what>\d+)"), "placing, round"),
    (re.compile(r"Info: Routing globals"), "routing"),
    (re.compile(r"Info: +iter=\d+ .*overused=(?P<what>\d+)"), "routing, wires in conflict:"),
)
_UNCONSTRAINED = re.compile(r"unconstrained", re.IGNORECASE)
_UTILISATION = re.compile(r"Info:\s+(?P<cell>\w+):\s+(?P<used>\d+)/\s*(?P<available>\d+)\s")
_LOGIC = "lower --parallelism or the widths of number formats"
_WHAT_HELPS = {
    "LUT": _LOGIC,
    "logic cells": _LOGIC,
    "FF": "lower --parallelism",
    "DSP": "lower --parallelism (or --multipliers), or multiply in logic with --no-dsp",
    "BRAM": "prune the model, narrow its weights, or keep them outside with --memory external",
    "pins": "lower the parallelism of inputs and outputs, or use --serial-ports to measure",
}


@dataclass(frozen=True)
class Segment:
    """A delay on a path, in a cell or between two.

    Attributes:
        kind: `clk-to-q`, `logic` and `setup` in cells, `routing` and `clk-skew` in wires.
        delay_ns: its delay.
        cell: where it ends.
        port: of that cell.
        net: name of the net, for `routing`.
    """

    kind: str
    delay_ns: float
    cell: str
    port: str
    net: str = ""


@dataclass(frozen=True)
class Timing:
    """What nextpnr reports of a design.

    Attributes:
        fmax_mhz: highest clock.
        path: the slowest path from register to register.
        used: cells of each type: used and available.
    """

    fmax_mhz: float
    path: tuple[Segment, ...]
    used: Mapping[str, tuple[int, int]]


def check_installed(target: RoutableTarget) -> None:
    """Raise unless nextpnr of the family is here, in a version that is not known to be wrong.

    Raises:
        ToolError: with the command that installs it.
    """
    try:
        if reason := target.why_wrong(version(target.distribution)):
            raise ToolError(reason)
    except PackageNotFoundError as error:
        raise ToolError(
            f"nextpnr for {target.title} was not found; install it: "
            f"{sys.executable} -m pip install {target.distribution}"
        ) from error


def place_and_route(
    target: RoutableTarget,
    part: Part,
    options: Sequence[str],
    folder: Path,
    progress: Callable[[str], None] | None,
) -> Timing:
    """Place and route `netlist.json` of a folder.

    Raises:
        RoutingError: when it does not fit, or for what nextpnr says.
    """
    report = folder / REPORT
    report.unlink(missing_ok=True)
    arguments = [
        *("--json", NETLIST, "--report", report.name, "--timing-allow-fail"),
        *("--router", target.router),
        *target.arguments(part),
        *options,
    ]
    status, lines = _run(target.distribution, arguments, folder, progress)
    if status != 0 or not report.exists():
        error = DoesNotFitError if _beyond(lines, target) else RoutingError
        raise error(explain(lines, status, target, part))
    return parse_report(json.loads(report.read_text()))


def pack(target: RoutableTarget, part: Part, layout: Path, bitstream: Path, folder: Path) -> None:
    """Write a bitstream from a layout; both names are relative to `folder`.

    Raises:
        RoutingError: for what the packer says.
    """
    command, arguments = target.packer(layout, bitstream, part)
    status, lines = _run(command, arguments, folder, None)
    if status != 0 or not (folder / bitstream).exists():
        said = lines[-1] if lines else f"status {status}"
        raise RoutingError(f"no bitstream for {part}: {said}")


def parse_report(report: Table) -> Timing:
    """Read nextpnr's report.

    Raises:
        RoutingError: when there is no path from register to register.
    """
    clocked = [
        entry["path"]
        for entry in report["critical_paths"]
        if entry["from"].startswith("posedge") and entry["from"] == entry["to"]
    ]
    if not clocked or not report["fmax"]:
        raise RoutingError("the design has no path from register to register, hence no clock rate")
    slowest = max(clocked, key=lambda path: sum(item["delay"] for item in path))
    return Timing(
        min(entry["achieved"] for entry in report["fmax"].values()),
        tuple(
            Segment(
                item["type"],
                item["delay"],
                item["to"]["cell"],
                item["to"]["port"],
                item.get("net", ""),
            )
            for item in slowest
        ),
        {
            cell: (counts["used"], counts["available"])
            for cell, counts in report["utilization"].items()
        },
    )


def explain(lines: Sequence[str], status: int, target: RoutableTarget, part: Part) -> str:
    """Reason for which nextpnr stopped: the resource that overflows, else its own first error."""
    if beyond := _beyond(lines, target):
        return too_large(beyond, target, part)
    said = next((line for line in lines if line.startswith(("ERROR:", "Error:"))), None)
    if said is None:
        said = lines[-1] if lines else "it said nothing"
    said = said.removeprefix("ERROR:").strip()
    if _UNCONSTRAINED.search(said):
        said = (
            f"{said.partition(' (')[0]}: give every bit of every port a pin in the file of --pins"
        )
    names = _resource_names(target)
    lacking = next((name for cell, name in names.items() if re.search(rf"\b{cell}\b", said)), "")
    advice = f"; {_advice([lacking], target, part)}" if lacking and "lace" in said else ""
    return f"place and route for {part} failed (status {status}): {said}{advice}"


def _resource_names(target: RoutableTarget) -> dict[str, str]:
    """Resources by nextpnr's cell type."""
    return {cell: name for name, cell in target.resources.items()} | {target.pins: "pins"}


def _beyond(lines: Sequence[str], target: RoutableTarget) -> dict[str, tuple[int, int]]:
    """Resources that overflow: used and available."""
    names = _resource_names(target)
    counts = [found for line in lines if (found := _UTILISATION.match(line))]
    return {
        names.get(found["cell"], found["cell"]): (int(found["used"]), int(found["available"]))
        for found in counts
        if int(found["used"]) > int(found["available"])
    }


def too_large(beyond: Mapping[str, tuple[int, int]], target: RoutableTarget, part: Part) -> str:
    """Return that a design does not fit, for what it takes too much of: taken and available."""
    amounts = ", ".join(f"{used:,} {name} of {has:,}" for name, (used, has) in beyond.items())
    return f"the design does not fit {part}: it takes {amounts}; {_advice(beyond, target, part)}"


def _advice(names: Iterable[str], target: RoutableTarget, part: Part) -> str:
    """Advice on smaller designs or larger parts."""
    names = list(names)
    helps = list(dict.fromkeys(_WHAT_HELPS[name] for name in names if name in _WHAT_HELPS))
    packages = [name for name in target.parts[part.device] if name != part.package]
    if "pins" in names and packages:
        helps.append(f"take another --package: {', '.join(packages)}")
    devices = list(target.parts)
    larger = devices[devices.index(part.device) + 1 :]
    if larger and names != ["pins"]:
        helps.append(f"take a larger --device: {', '.join(larger)}")
    return "; ".join(helps) or "no larger device is known"


def _run(
    command: str,
    arguments: Sequence[str],
    folder: Path,
    progress: Callable[[str], None] | None,
) -> tuple[int, list[str]]:
    """Run a command of a Python package in a folder; return its status and what it said."""

    def look(line: str) -> None:
        if progress and (stage := stage_of(line)):
            progress(stage)

    return run_python(["-c", _CALL, command, *arguments], folder, look)


def stage_of(line: str) -> str | None:
    """Stage of progress that a line of nextpnr's log announces."""
    if line.startswith("Preparing to run"):
        return "compiling nextpnr once"
    for pattern, words in _STAGES:
        if found := pattern.match(line):
            return " ".join([words, *found.groupdict().values()])
    return None
