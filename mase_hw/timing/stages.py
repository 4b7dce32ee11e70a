"""Back-pressure between stages: what moves when consumers hold their producers up.

Beats go forward and room comes back: each stage of each cell says when its beats move, given when
they are offered to it and when its results depart, until nothing changes. What comes later never
changes what came before, so that there is one solution, which is the module's, and every round
settles more of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from mase_hw.cells import Motion, Netlist, Wire
from mase_hw.geometry.beats import Cycles
from mase_hw.timing.pace import SETTLED, Pace

Arrivals = Mapping[str, Cycles]
# When operands are consumed, and when results are offered.
NodeTimes = tuple[Mapping[str, Cycles], Cycles]

UNBOUNDED = 1 << 62
# Beats that a pipeline which moves as one may hold beyond what `room` says.
SPARE = 16
# An inference late enough to depend on nothing before the first one.
LATE = 4


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
        """Return when all have consumed each beat; -1 where nothing does."""
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
    # Of the last run without back-pressure: when beats came, were consumed, and were offered.
    _free: tuple[Arrivals, Mapping[str, Cycles], Cycles] | None = None

    def __post_init__(self) -> None:
        self.output.stage = self
        for port, stream in self.inputs.items():
            stream.users.append((self, port))

    @property
    def _arrivals(self) -> dict[str, Cycles]:
        return {port: stream.offered for port, stream in self.inputs.items()}

    def run(self) -> None:
        """Move beats to consumers that are always ready, unless they come as in the run before."""
        arrivals = self._arrivals
        if self._free is None or not _same(self._free[0], arrivals):
            self._free = arrivals, self.motion.consumed(arrivals), self.motion.offered(arrivals)
        _, self.consumed, self.output.offered = self._free
        self.stale = True

    def reach(self, port: str, beats: int) -> int:
        """Return how many inferences before its own a beat may wait for room in.

        Args:
            port: the input that the beat enters by.
            beats: of that input, in an inference.
        """
        first = np.array([LATE * beats])
        room = int(self.motion.room_of(port, (LATE + 1) * beats, first)[0]) - SPARE
        return LATE - room // self.motion.results(beats, port)

    def update(self) -> int:
        """Bring the times up to date; return of how many beats."""
        self.stale = False
        found = self.motion.under_pressure(self._arrivals, self.output.departed())
        for port, stream in self.inputs.items():
            if stream.stage and not np.array_equal(found.consumed[port], self.consumed[port]):
                stream.stage.stale = True
        if not np.array_equal(found.offered, self.output.offered):
            for stage, _ in self.output.users:
                stage.stale = True
        self.consumed, self.output.offered = found.consumed, found.offered
        return sum(times.size for times in (*found.consumed.values(), found.offered))


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

    @property
    def times(self) -> list[Cycles]:
        """When beats of every stream are consumed and offered."""
        consumed = [times for stage in self._stages for times in stage.consumed.values()]
        return consumed + [stage.output.offered for stage in self._stages]

    def reach(self, beats: dict[Stream, int]) -> int:
        """Return how many inferences before its own a beat depends on, at most.

        Args:
            beats: of each given stream, in an inference.
        """
        found, beats = 1, dict(beats)
        for stage in self._stages:
            for port, stream in stage.inputs.items():
                found = max(found, stage.reach(port, beats[stream]))
                beats[stage.output] = stage.motion.results(beats[stream], port)
        return found

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
        self._beats = {name: netlist.inputs[name].beats for name in late if name in netlist.inputs}

    @cached_property
    def reach(self) -> int:
        """How many inferences before its own a beat depends on, at most."""
        return self._stages.reach({self._given[name]: beats for name, beats in self._beats.items()})

    def inferences(self, arrivals: Arrivals) -> int:
        """Return how many inferences come."""
        name, beats = next(iter(self._beats.items()))
        return arrivals[name].size // beats

    def run(self, arrivals: Arrivals, departures: Cycles | None = None) -> NodeTimes:
        """Return when beats of each operand are consumed, from idle, and when results are offered.

        Where inferences follow each other alike, only those that differ are simulated.

        Args:
            arrivals: when beats of each operand are offered.
            departures: when results depart; None to a consumer that is always ready.
        """
        given = [*arrivals.values(), *(() if departures is None else (departures,))]
        pace = Pace.of(given, self.inferences(arrivals))
        if pace is not None and self.reach + SETTLED < pace.inferences:
            some = self.reach + SETTLED
            first = {name: pace.first(some, times) for name, times in arrivals.items()}
            left = None if departures is None else pace.first(some, departures)
            consumed, offered = self.simulate(first, left)
            if all(pace.is_kept(some, times) for times in self._stages.times):
                later = {name: pace.go_on(some, times) for name, times in consumed.items()}
                return later, pace.go_on(some, offered)
        return self.simulate(arrivals, departures)

    def simulate(self, arrivals: Arrivals, departures: Cycles | None) -> NodeTimes:
        """Return the same of all inferences that are given."""
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


def _same(one: Arrivals, other: Arrivals) -> bool:
    """True if the same inputs come at the same times."""
    return all(np.array_equal(one[port], other[port]) for port in other)


def _wire(netlist: Netlist, operand: str) -> Wire:
    """Return the stream of an operand."""
    if operand in netlist.inputs:
        return Wire("", operand)
    source = netlist.constants[operand]
    return Wire(source, next(iter(netlist.cells[source].outputs)))


def _joins_streams(netlist: Netlist) -> bool:
    """True if an input may wait inside for another one."""
    joined = [owner for owner, _ in netlist.links]
    made = {wire.cell for wire in netlist.links.values()} - {"", *netlist.constants.values()}
    return len(netlist.inputs) > 1 and bool(made) and len(set(joined)) < len(joined)
