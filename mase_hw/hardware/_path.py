"""A critical path in the terms of a design: nodes, modules, and what kind of cells it crosses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from mase_hw.hardware._nextpnr import Segment
from mase_hw.hardware._wrapper import INSTANCE
from mase_hw.hardware.targets import RoutableTarget

# Yosys names a cell after a net and the primitive: what is ours ends before `_TRELLIS_FF_Q`.
_PRIMITIVE = re.compile(r"(^|_)[A-Z][A-Z0-9]+(_.*)?$|\$.*$")
PORTS = "(ports)"
GLUE = "(glue)"


@dataclass(frozen=True)
class Instance:
    """The node and the module of an instance of the top."""

    node: str
    module: str


@dataclass(frozen=True)
class Step:
    """Neighbouring cells of one kind on a path.

    Attributes:
        node: graph node, `(glue)` for the top's own logic, `(ports)` for a flip-flop at a port.
        module: SystemVerilog module of the instance; empty where there is none.
        kind: `register`, `logic`, `carry`, `memory`, `multiplier`, ...
        signal: name of the last cell's result below the top.
        cells: how many.
        logic_ns: delay in the cells.
        routing_ns: delay of the wires that lead to them and between them.
    """

    node: str
    module: str
    kind: str
    signal: str
    cells: int
    logic_ns: float
    routing_ns: float

    def to_dict(self) -> dict[str, object]:
        """Return the fields as values of JSON."""
        return dict(vars(self))


@dataclass(frozen=True)
class CriticalPath:
    """The slowest path from register to register."""

    steps: tuple[Step, ...]

    @property
    def logic_ns(self) -> float:
        """Delay in cells, in nanoseconds."""
        return sum(step.logic_ns for step in self.steps)

    @property
    def routing_ns(self) -> float:
        """Delay in wires, in nanoseconds."""
        return sum(step.routing_ns for step in self.steps)

    def __str__(self) -> str:
        """Start, cells crossed by kind, and end."""
        first, *between, last = self.steps if len(self.steps) > 1 else self.steps * 2
        counts: Counter[str] = Counter()
        for step in between:
            counts[step.kind] += step.cells
        crossed = ", ".join(f"{kind} x{n}" if n > 1 else kind for kind, n in counts.items())
        places = list(dict.fromkeys(map(_named, self.steps)))
        through = f"{_named(first)}: {first.kind}" if len(places) > 1 else first.kind
        through += f" -> {crossed}" if crossed else ""
        if len(places) == 1:
            return f"{places[0]}: {through} -> {last.kind}"
        inner = [place for place in places if place not in (_named(first), _named(last))]
        through += f" (through {', '.join(inner)})" if inner else ""
        return f"{through} -> {_named(last)}: {last.kind}"

    def to_dict(self) -> dict[str, object]:
        """Return the sums and the steps."""
        return {
            "logic_ns": round(self.logic_ns, 3),
            "routing_ns": round(self.routing_ns, 3),
            "steps": [step.to_dict() for step in self.steps],
        }


def _named(step: Step) -> str:
    return f"{step.node} ({step.module})" if step.module else step.node


def critical_path(
    segments: Sequence[Segment],
    instances: Mapping[str, Instance],
    target: RoutableTarget,
    *,
    wrapped: bool,
) -> CriticalPath:
    """Return a path of nextpnr in the terms of the design.

    Args:
        segments: delays in order.
        instances: of the top, by name.
        target: what says of which kind a cell is.
        wrapped: whether a wrapper stands around the top.
    """
    cells: list[Step] = []
    routing = 0.0
    for index, segment in enumerate(segments):
        if segment.kind in ("routing", "clk-skew"):
            routing += segment.delay_ns
            continue
        if segment.cell.startswith("$") and cells:
            # What nextpnr inserts, to lead a carry out of its chain, belongs to what it follows.
            instance, signal = Instance(cells[-1].node, cells[-1].module), cells[-1].signal
        else:
            instance, signal = _place(segment.cell, instances, wrapped)
        leaving = segments[index + 1].net if index + 1 < len(segments) else ""
        cells.append(
            Step(
                instance.node,
                instance.module,
                target.kind(segment.kind, segment.cell, segment.port),
                _below_top(leaving) or signal,
                1,
                segment.delay_ns,
                routing,
            )
        )
        routing = 0.0
    joined = []
    for _, group in groupby(cells, key=lambda cell: (cell.node, cell.module, cell.kind)):
        same = list(group)
        joined.append(
            Step(
                same[-1].node,
                same[-1].module,
                same[-1].kind,
                same[-1].signal,
                len(same),
                round(sum(cell.logic_ns for cell in same), 3),
                round(sum(cell.routing_ns for cell in same), 3),
            )
        )
    return CriticalPath(tuple(joined))


def _place(cell: str, instances: Mapping[str, Instance], wrapped: bool) -> tuple[Instance, str]:
    """Instance that holds a cell, and the cell's name in it."""
    name = cell.rpartition(f"{INSTANCE}.")[2]
    if wrapped and name == cell:
        return Instance(PORTS, ""), _below_top(cell)
    return instances.get(name.partition(".")[0], Instance(GLUE, "")), _below_top(cell)


def _below_top(name: str) -> str:
    """Return a name of the netlist without the wrapper, and without names of primitives."""
    name = name.rpartition(f"{INSTANCE}.")[2]
    parts = [_PRIMITIVE.sub("", part) for part in name.split(".")]
    return ".".join(part for part in parts if part)
