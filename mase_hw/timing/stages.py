"""Back-pressure between stages: what moves when consumers hold their producers up.

Beats go forward and room comes back: each stage of each cell says when its beats move, given when
they are offered to it and when its results depart, until nothing changes. What comes later never
changes what came before, so that there is one solution, which is the module's, and every round
settles more of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from mase_hw.cells import Motion, Netlist, Wire
from mase_hw.geometry.beats import Cycles

UNBOUNDED = 1 << 62


@dataclass(eq=False)
class Stream:
    """Beats between stages.

    Attributes:
        offered: when they are offered.
        stage: what offers them; none for what comes from elsewhere.
        users: the stages that consume them, with the input of each.
        departures: when they go elsewhere; None where nothing else consumes them.
    """

    offered: Cycles = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    stage: Stage | None = None
    users: list[tuple[Stage, str]] = field(default_factory=list)
    departures: Cycles | None = None

    def departed(self) -> Cycles:
        """Return when each beat has gone to all; before it comes, where nothing consumes it."""
        times = [stage.consumed[port] for stage, port in self.users]
        if self.departures is not None:
            times.append(self.departures)
        return np.maximum.reduce(times) if times else np.full(self.offered.size, -1)


@dataclass(eq=False)
class Stage:
    """A motion between streams.

    Attributes:
        inputs: the stream of each input that may be late.
        consumed: when beats of each of them are consumed.
        stale: whether a stream of it has changed.
    """

    motion: Motion
    inputs: Mapping[str, Stream]
    output: Stream = field(default_factory=Stream)
    consumed: Mapping[str, Cycles] = field(default_factory=dict)
    stale: bool = True

    def __post_init__(self) -> None:
        self.output.stage = self
        for port, stream in self.inputs.items():
            stream.users.append((self, port))

    @property
    def _arrivals(self) -> dict[str, Cycles]:
        return {port: stream.offered for port, stream in self.inputs.items()}

    def run(self) -> None:
        """Move beats to consumers that are always ready."""
        arrivals = self._arrivals
        self.output.offered = self.motion.offered(arrivals)
        self.consumed, self.stale = self.motion.taken(arrivals), True

    def update(self) -> int:
        """Bring the times up to date; return of how many beats."""
        self.stale = False
        found = self.motion.moves(self._arrivals, self.output.departed())
        for port, stream in self.inputs.items():
            if stream.stage and not np.array_equal(found.taken[port], self.consumed[port]):
                stream.stage.stale = True
        if not np.array_equal(found.offered, self.output.offered):
            for stage, _ in self.output.users:
                stage.stale = True
        self.consumed, self.output.offered = found.taken, found.offered
        return sum(times.size for times in (*found.taken.values(), found.offered))


class Stages:
    """Stages in dataflow order."""

    def __init__(self) -> None:
        self._stages: list[Stage] = []

    def add(self, motion: Motion, inputs: Mapping[str, Stream]) -> Stream:
        """Add a stage; return its result."""
        self._stages.append(Stage(motion, inputs))
        return self._stages[-1].output

    def add_cell(self, motion: Motion, inputs: Mapping[str, Stream]) -> Stream:
        """Add the stages of a cell, one behind another; return its result."""
        first, *others = motion.stages
        stream = self.add(first, inputs)
        for stage in others:
            stream = self.add(stage, {"": stream})
        return stream

    @property
    def forks(self) -> bool:
        """Whether several stages consume the same stream."""
        return any(len(stage.output.users) > 1 for stage in self._stages)

    def run(self) -> None:
        """Move beats to consumers that are always ready."""
        for stage in self._stages:
            stage.run()

    def settle(self, beats: int = UNBOUNDED) -> int:
        """Let consumers hold producers up.

        Args:
            beats: times of beats that may be computed for that.

        Returns:
            How many of these are left, negative where that did not come to an end.
        """
        while any(stage.stale for stage in self._stages):
            for stage in (*reversed(self._stages), *self._stages):
                if stage.stale:
                    beats -= stage.update()
                if beats < 0:
                    return beats
        return beats


class NodeStages:
    """The stages of one node's cells.

    Args:
        netlist: its cells.
        late: the operands that may be late: its inputs, and constants from elsewhere.
    """

    def __init__(self, netlist: Netlist, late: Iterable[str]) -> None:
        netlist = netlist.flat
        self._stages = Stages()
        self._given = {name: Stream() for name in late}
        streams = {_wire(netlist, name): stream for name, stream in self._given.items()}
        for name, cell in netlist.cells.items():
            drivers = netlist.drivers(name)
            inputs = {port: streams[wire] for port, wire in drivers.items() if wire in streams}
            if inputs:
                output = Wire(name, next(iter(cell.outputs)))
                streams[output] = self._stages.add_cell(cell.motion, inputs)
        self._result = streams[netlist.outputs["data_out_0"]]
        self._joins = _joins_streams(netlist)

    def run(
        self, arrivals: Mapping[str, Cycles], departures: Cycles | None = None
    ) -> tuple[dict[str, Cycles], Cycles]:
        """Return when beats of each operand are consumed, from idle, and when results are offered.

        Args:
            arrivals: when beats of each operand are offered.
            departures: when results depart; None to a consumer that is always ready.
        """
        for name, stream in self._given.items():
            stream.offered = arrivals[name]
        self._result.departures = departures
        self._stages.run()
        if departures is not None or self._joins:
            self._stages.settle()
        consumed = {
            name: np.maximum(stream.offered, stream.departed())
            for name, stream in self._given.items()
        }
        return consumed, self._result.offered


def _wire(netlist: Netlist, operand: str) -> Wire:
    """Return the stream of an operand."""
    if operand in netlist.inputs:
        return Wire("", operand)
    source = netlist.constants[operand]
    return Wire(source, next(iter(netlist.cells[source].outputs)))


def _joins_streams(netlist: Netlist) -> bool:
    """Return whether an input may wait inside for another one."""
    joined = [owner for owner, _ in netlist.links]
    made = {wire.cell for wire in netlist.links.values()} - {"", *netlist.constants.values()}
    return len(netlist.inputs) > 1 and bool(made) and len(set(joined)) < len(joined)
