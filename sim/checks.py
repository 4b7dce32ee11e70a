"""The rules of every stream inside a design, as assertions of its simulation.

`mase_stream_check` is bound to the module of each cell, so that it watches what leaves any
instance, in the top or deep inside; the properties of inner modules (`MASE_CHECKS` in `rtl/`) are
assertions besides. Neither is part of the sources of a project, and no synthesis sees them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from mase_hw._resources import sim_folder
from mase_hw.cells import cells
from mase_hw.emit.design import TOP, DesignSummary, Watched, declared_names, library
from mase_hw.sim.engine import Violation

CHECK = "mase_stream_check"
PROGRESS = "mase_progress_check"
# The name of an instance of it: this, and the stream's.
INSTANCE = "check_"
FLAGS = ("--assert", "-DMASE_CHECKS")
# Failures of one run until the simulator gives up.
ERROR_LIMIT = 10_000
# As in both engines: the reset takes the first of these periods, edges rise in the middle.
PERIOD_PICOSECONDS = 10_000

_RULE = re.compile(rf"{CHECK}: (?:\w+\.)?{TOP}\.(\S+?)\.{INSTANCE}(\w+)\.?\w* (\d+) (.*)")
_PROGRESS = re.compile(rf"{PROGRESS}: (?:\w+\.)?{TOP}\.{INSTANCE}(\w+)\.?\w* (\d+) (.*)")
_ASSERTION = re.compile(
    rf"\[(\d+)\] %Error: \S+: Assertion failed in (?:\w+\.)?{TOP}\.(\S+)\.(\w+):"
)
_MODULE = re.compile(r"^\s*module\s+(\w+)", re.MULTILINE)


def said_of(line: str) -> tuple[str, str] | None:
    """Place and text of a failed check in a line of a simulator; None for others."""
    breach = _failed(line)
    return breach and breach[:2]


def _failed(line: str) -> tuple[str, str, str, int] | None:
    """Place, text, instance and cycle of a failed check in a line of a simulator."""
    if rule := _RULE.search(line):
        path, stream, time, what = rule.groups()
        where = f"{stream} of {path}"
    elif progress := _PROGRESS.search(line):
        path, time, what = progress.groups()
        where = path
    elif assertion := _ASSERTION.search(line):
        time, path, name = assertion.groups()
        where, what = path, f"{name} does not hold"
    else:
        return None
    # Nothing holds before the first reset.
    cycle = int(time) // PERIOD_PICOSECONDS - 1
    return None if cycle < 0 else (where, what, path, cycle)


def check_text(texts: Iterable[str], watched: Iterable[Watched] = ()) -> str:
    """Return SystemVerilog that watches the streams of a design, the modules that do so included.

    Args:
        texts: the sources of the design.
        watched: instances of the top that must make progress.
    """
    own = {f"mase_{cls.__module__.rpartition('.')[2]}" for cls in cells()}
    inner = library().keys() - own
    binds: list[str] = []
    for text in texts:
        for module in _MODULE.findall(text):
            if module != TOP and module not in inner:
                binds += _binds(module, declared_names(module, text))
    modules = [(sim_folder() / f"{name}.sv").read_text() for name in (CHECK, PROGRESS)]
    return "\n".join([*modules, *sorted(set(binds)), *(_progress(item) for item in watched)])


def _progress(item: Watched) -> str:
    """Return a check that an instance of the top makes progress."""
    beats = ", ".join(f"32'd{count}" for count in reversed(list(item.inputs.values())))
    taken = ", ".join(f"{net}_valid && {net}_ready" for net in reversed(list(item.inputs)))
    return (
        f"bind {TOP} {PROGRESS} #(.INPUTS({len(item.inputs)}), .BEATS_IN({{{beats}}}),\n"
        f"    .BEATS_OUT({item.beats}), .CYCLES({item.cycles}))\n"
        f"    {INSTANCE}{item.name} (.clk, .rst,\n"
        f"    .taken({{{taken}}}), .valid({item.output}_valid), .ready({item.output}_ready));\n"
    )


def _binds(module: str, names: Mapping[str, frozenset[str]]) -> Iterator[str]:
    """Yield a check of each stream that leaves a module."""
    streams = _streams(names, "output", "input")
    payload: dict[str, list[str]] = {stream: [] for stream in streams}
    for name in sorted(names["output"]):
        # The longest name that it begins with.
        owner = max(
            (item for item in streams if f"{name}_".startswith(f"{item}_")), key=len, default=None
        )
        if owner and name != f"{owner}_valid":
            payload[owner].append(name)
    offers = ", ".join(sorted(f"{item}_valid" for item in _streams(names, "input", "output")))
    # A source begins by itself.
    is_offered = f"|{{{offers}}}" if offers else "1'b1"
    for stream, signals in payload.items():
        data = f"{{{', '.join(signals)}}}" if signals else "1'b0"
        yield (
            f"bind {module} {CHECK} #(.WIDTH($bits({data})), .STREAMS($bits({stream}_valid)))\n"
            f"    {INSTANCE}{stream} (.clk, .rst, .given({is_offered}), .data({data}),\n"
            f"        .valid({stream}_valid), .ready({stream}_ready));\n"
        )


def _streams(names: Mapping[str, frozenset[str]], forth: str, back: str) -> list[str]:
    """Return the streams whose `valid` goes one way and whose `ready` the other."""
    stems = (name.removesuffix("_valid") for name in names[forth] if name.endswith("_valid"))
    return [stem for stem in stems if f"{stem}_ready" in names[back]]


def broken_rules(lines: Sequence[str], summary: DesignSummary) -> tuple[Violation, ...]:
    """Failed checks in the lines of a simulator, the first one first."""
    order = {instance: place for place, instance in enumerate(summary.owners)}
    first_breach: dict[tuple[str, str], tuple[int, int, Violation]] = {}
    for line in lines:
        if (failed := _failed(line)) is None:
            continue
        where, what, path, cycle = failed
        top = path.partition(".")[0]
        node = summary.owners.get(top)
        breach = Violation(f"{where}, node {node}" if node else where, what, cycle)
        first_breach.setdefault((where, what), (cycle, order.get(top, 0), breach))
    return tuple(
        breach for _, _, breach in sorted(first_breach.values(), key=lambda item: item[:2])
    )
