"""Simulation of back-pressure: a consumer that is not ready stops its producer, and a fork with it.

Beats go forward and room comes back: each stage of each cell says when its beats move, given when
they are offered to it and when its results go, until nothing changes. What comes later never
changes what came before, so that there is one solution, which is the module's, and every round
settles more of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from torch.fx import Node

from mase_hw.cells import MOVES, Cell, Motion, Netlist, RomSource, Steps, Wire
from mase_hw.cells.cat import Merge
from mase_hw.cells.rom_source import FIRST_CYCLE
from mase_hw.geometry.beats import Cycles
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.physical import PhysicalGraph
from mase_hw.graph.reference import spec
from mase_hw.graph.streams import stream_operands
from mase_hw.timing.memory import Place

# Moves of beats that are computed for layers on the same hardware.
LAP_MOVES = 100 * MOVES


@dataclass
class _Stream:
    """Beats between two stages.

    Attributes:
        offered: when they are offered.
        stage: what offers them; none for words from outside.
        users: the stages that take them, with the input of each.
    """

    offered: Cycles
    stage: _Stage | None = None
    users: list[tuple[_Stage, str]] = field(default_factory=list)

    def gone(self) -> Cycles:
        """Return when each beat has gone to all stages; before it comes, where there is none."""
        times = [stage.taken[port] for stage, port in self.users]
        return np.maximum.reduce(times) if times else np.full(self.offered.size, -1)


@dataclass
class _Stage:
    """A motion between streams.

    Attributes:
        inputs: the stream of each input that may be late.
        taken: when beats of each of them are taken.
        stale: whether a stream of it has changed.
    """

    motion: Motion
    inputs: Mapping[str, _Stream]
    output: _Stream = field(default_factory=lambda: _Stream(np.empty(0, dtype=np.int64)))
    taken: Mapping[str, Cycles] = field(default_factory=dict)
    stale: bool = True

    @property
    def _arrivals(self) -> dict[str, Cycles]:
        return {port: stream.offered for port, stream in self.inputs.items()}

    def run(self) -> None:
        """Move beats to consumers that are always ready."""
        arrivals = self._arrivals
        self.output.offered = self.motion.offered(arrivals)
        self.taken, self.stale = self.motion.taken(arrivals), True

    def move(self) -> int:
        """Bring the moves up to date; return of how many beats."""
        self.stale = False
        moves = self.motion.moves(self._arrivals, self.output.gone())
        for port, stream in self.inputs.items():
            if stream.stage and not np.array_equal(moves.taken[port], self.taken[port]):
                stream.stage.stale = True
        if not np.array_equal(moves.offered, self.output.offered):
            for stage, _ in self.output.users:
                stage.stale = True
        self.taken, self.output.offered = moves.taken, moves.offered
        return sum(times.size for times in (*moves.taken.values(), moves.offered))


class Network:
    """The stages of a design's cells, joined by streams.

    Args:
        mg: a graph with parallelism.
        netlists: of its nodes.
        outside: the constants that come from outside the chip.
        inferences: how many follow each other.
    """

    def __init__(
        self,
        mg: MaseGraph,
        netlists: Mapping[Node, Netlist],
        outside: Iterable[Place] = (),
        inferences: int = 1,
    ) -> None:
        self._stages: list[_Stage] = []
        self._results: dict[Node, _Stream] = {}
        self._words: dict[Place, _Stream] = {}
        self._left = MOVES
        # What comes back to where layers begin that run on the same hardware, by the name of the
        # node from whose end it comes.
        self._back: dict[str, _Stream] = {}
        self._inferences = inferences
        for node in mg.inputs:
            beats = np.arange(inferences * spec(node).beats)
            self._results[node] = self._add(Steps(0), {"": _Stream(beats)})
        self._inputs = {id(stream) for stream in self._results.values()}
        for node, netlist in netlists.items():
            netlist = netlist.flat
            streams = {
                Wire("", name): self._results[producer] for name, producer in stream_operands(node)
            }
            for place in outside:
                if place[0] == node.name:
                    name = netlist.constants[place[1]]
                    wire = Wire(name, next(iter(netlist.cells[name].outputs)))
                    # A memory streams its words as often as they are used.
                    owner, port = next(key for key, link in netlist.links.items() if link == wire)
                    words = np.zeros(netlist.cells[owner].inputs[port].beats, dtype=np.int64)
                    streams[wire] = self._words[place] = _Stream(words)
            for name, given in netlist.inputs.items():
                if Wire("", name) not in streams:
                    back = _Stream(np.zeros(inferences * given.beats, dtype=np.int64))
                    assert isinstance(mg, PhysicalGraph)
                    self._back[mg.turns.returns[node.name]] = streams[Wire("", name)] = back
            self._results[node] = self._cells(netlist, streams)
        self._ends = [
            (stage, self._back[node.name])
            for node, stream in self._results.items()
            if node.name in self._back and (stage := stream.stage) is not None
        ]

    def _cells(self, netlist: Netlist, streams: dict[Wire, _Stream]) -> _Stream:
        """Add the cells of a node; return the stream of its result."""
        for name, cell in netlist.cells.items():
            given = {
                port: streams[wire]
                for (owner, port), wire in netlist.links.items()
                if owner == name and wire in streams
            }
            if given:
                given |= self._first_words(netlist, name, cell, given)
                first, *others = cell.motion.stages
                stream = self._add(first, given)
                for motion in others:
                    stream = self._add(motion, {"": stream})
                streams[Wire(name, next(iter(cell.outputs)))] = stream
        return streams[netlist.outputs["data_out_0"]]

    def _first_words(
        self, netlist: Netlist, name: str, cell: Cell, given: Mapping[str, _Stream]
    ) -> dict[str, _Stream]:
        """Return the words that a cell takes with its beats, where those come from an input.

        Elsewhere words have come when beats do.
        """
        beats = cell.inputs[next(iter(given))].beats
        if not {id(stream) for stream in given.values()} & self._inputs:
            return {}
        return {
            port: _Stream(np.full(cell.inputs[port].beats, FIRST_CYCLE))
            for (owner, port), wire in netlist.links.items()
            if owner == name
            and port not in given
            and isinstance(netlist.cells.get(wire.cell), RomSource)
            and (cell.inputs[port].beats == beats or isinstance(cell.motion, Merge))
        }

    def _add(self, motion: Motion, inputs: Mapping[str, _Stream]) -> _Stream:
        """Add a stage; return its result."""
        stage = _Stage(motion, inputs)
        stage.output.stage = stage
        for port, stream in inputs.items():
            stream.users.append((stage, port))
        self._stages.append(stage)
        return stage.output

    def run(self, words: Mapping[Place, Cycles]) -> None:
        """Compute when beats move.

        Where nothing forks, it is as if every consumer were always ready: what holds up a producer
        then takes all that it could have taken earlier, and no result comes later for it. So it is
        where a design is too large for more, too.

        Args:
            words: when words from outside are offered; without any, always.
        """
        for place, cycles in words.items():
            self._words[place].offered = cycles
        for stage in self._stages:
            stage.run()
        if any(len(stage.output.users) > 1 for stage in self._stages) and not self._settle():
            for stage in self._stages:
                stage.run()

    def go_round(self) -> bool:
        """Compute when beats move that go through layers on the same hardware.

        What enters a layer depends on what left the one before. At first all of that counts as
        there, which is too early; every step settles a layer more, and none comes too late.

        Returns:
            Whether that came to an end.
        """
        forks = any(len(stage.output.users) > 1 for stage in self._stages)
        self._left = LAP_MOVES
        for stage in self._stages:
            stage.run()
        while not forks or self._settle():
            if not self._return():
                return True
            if not forks:
                for stage in self._stages:
                    stage.run()
        return False

    def _return(self) -> bool:
        """Let come back what has gone back; return whether anything comes at other times."""
        changed = False
        for end, back in self._ends:
            (taken,) = end.taken.values()
            each = back.offered.size // self._inferences
            times = taken.reshape(self._inferences, -1)[:, :each].reshape(-1)
            if not np.array_equal(times, back.offered):
                back.offered, changed = times, True
                for stage, _ in back.users:
                    stage.stale = True
        return changed

    def _settle(self) -> bool:
        """Let consumers hold producers up; return whether that came to an end."""
        while any(stage.stale for stage in self._stages):
            for stage in (*self._stages, *reversed(self._stages)):
                if stage.stale:
                    self._left -= stage.move()
                if self._left < 0:
                    return False
        return True

    def offered(self, node: Node) -> Cycles:
        """Return when each beat of a result is offered."""
        return self._results[node].offered

    def gone(self, node: Node) -> Cycles:
        """Return when each beat of a result has gone to all; negative where it leaves the chip."""
        return self._results[node].gone()

    def read(self) -> dict[Place, Cycles]:
        """Return when each word from outside is taken."""
        return {place: stream.gone() for place, stream in self._words.items()}
