"""Simulation of back-pressure in a whole design, beat by beat."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from torch.fx import Node

from mase_hw.cells import Cell, Netlist, RomSource, Steps, Wire
from mase_hw.cells.cat import Merge
from mase_hw.cells.rom_source import FIRST_CYCLE
from mase_hw.geometry.beats import Cycles
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import stream_operands
from mase_hw.graph.physical import PhysicalGraph
from mase_hw.graph.reference import spec
from mase_hw.timing.memory import Delivery, ExternalMemory, Place
from mase_hw.timing.stages import Stages, Stream
from mase_hw.timing.times import MOST_BEATS

# Times of beats that are computed until they agree, and in loops.
MOST_TIMES = MOST_BEATS
MOST_LOOP_TIMES = 100 * MOST_BEATS


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
        self._stages = Stages()
        self._results: dict[Node, Stream] = {}
        self._words: dict[Place, Stream] = {}
        self._left = MOST_TIMES
        # What comes back to where layers begin that run on the same hardware, by the name of the
        # node from whose end it comes.
        self._back: dict[str, Stream] = {}
        self._inferences = inferences
        for node in mg.inputs:
            beats = np.arange(inferences * spec(node).beats)
            self._results[node] = self._stages.add(Steps(0), {"": Stream(beats)})
        # Cycles after an input, at least, in which a stream begins.
        self._earliest = dict.fromkeys(self._results.values(), 0)
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
                    each = netlist.cells[owner].inputs[port].beats * mg.rounds(node)
                    words = np.zeros(inferences * each, dtype=np.int64)
                    streams[wire] = self._words[place] = Stream(words)
            for name, given in netlist.inputs.items():
                if Wire("", name) not in streams:
                    back = Stream(np.zeros(inferences * given.beats, dtype=np.int64))
                    assert isinstance(mg, PhysicalGraph)
                    self._back[mg.sharing.returns[node.name]] = streams[Wire("", name)] = back
            self._results[node] = self._cells(netlist, streams)
        self._ends = [
            (stage, self._back[node.name])
            for node, stream in self._results.items()
            if node.name in self._back and (stage := stream.stage) is not None
        ]

    def _cells(self, netlist: Netlist, streams: dict[Wire, Stream]) -> Stream:
        """Add the cells of a node; return the stream of its result."""
        for name, cell in netlist.cells.items():
            drivers = netlist.drivers(name)
            given = {port: streams[wire] for port, wire in drivers.items() if wire in streams}
            if given:
                given |= self._first_words(netlist, name, cell, given)
                output = Wire(name, next(iter(cell.outputs)))
                streams[output] = self._stages.add_cell(cell.motion, given)
                lag = sum(stage.lag for stage in cell.motion.stages)
                self._earliest[streams[output]] = self._begins(given.values()) + lag
        return streams[netlist.outputs["data_out_0"]]

    def _begins(self, streams: Iterable[Stream]) -> int:
        return min(self._earliest.get(stream, FIRST_CYCLE) for stream in streams)

    def _first_words(
        self, netlist: Netlist, name: str, cell: Cell, given: Mapping[str, Stream]
    ) -> dict[str, Stream]:
        """Return the words that a cell takes with its beats, where those may come before them."""
        beats = cell.inputs[next(iter(given))].beats
        if self._begins(given.values()) >= FIRST_CYCLE:
            return {}
        return {
            port: Stream(np.full(self._inferences * cell.inputs[port].beats, FIRST_CYCLE))
            for port, wire in netlist.drivers(name).items()
            if port not in given
            and isinstance(netlist.cells.get(wire.cell), RomSource)
            and (cell.inputs[port].beats == beats or isinstance(cell.motion, Merge))
        }

    def agree(self, memory: ExternalMemory, rounds: int) -> bool:
        """Let words from outside come when they do; return whether that came to an end.

        Words that come late are consumed late, and what is consumed late makes room late: both are
        computed in turn until they agree.

        Args:
            memory: what the words come from.
            rounds: how often that is done at most.
        """
        delivery, words = Delivery(memory, self._inferences), dict[Place, Cycles]()
        done = self.run(words)
        for _ in range(rounds):
            before, words = words, delivery.words(self.read())
            if before and all(np.array_equal(before[place], words[place]) for place in words):
                return done
            done = self.run(words)
        return False

    def run(self, words: Mapping[Place, Cycles]) -> bool:
        """Compute when beats move; return whether that came to an end.

        Where nothing forks, it is as if every consumer were always ready: what holds up a producer
        then consumes all that it could have consumed earlier, and no result comes later for it.
        Designs that are too large for more are computed so, too.

        Args:
            words: when words from outside are offered; without any, always.
        """
        for place, cycles in words.items():
            self._words[place].offered = cycles
        if self._back:
            return self._go_round()
        self._stages.run()
        if self._stages.forks and not self._settle():
            self._stages.run()
        return True

    def _go_round(self) -> bool:
        """Compute when beats move that go through layers on the same hardware.

        What enters a layer depends on what left the one before. At first all of that counts as
        there, which is too early; every step settles a layer more, and none comes too late.

        Returns:
            Whether that came to an end.
        """
        forks = self._stages.forks
        self._left = MOST_LOOP_TIMES
        self._stages.run()
        while not forks or self._settle():
            if not self._return():
                return True
            if not forks:
                self._stages.run()
        return False

    def _return(self) -> bool:
        """Let come back what went back; return whether anything comes at other times."""
        changed = False
        for end, back in self._ends:
            (consumed,) = end.consumed.values()
            each = back.offered.size // self._inferences
            times = consumed.reshape(self._inferences, -1)[:, :each].reshape(-1)
            if not np.array_equal(times, back.offered):
                back.offered, changed = times, True
                for stage, _ in back.users:
                    stage.stale = True
        return changed

    def _settle(self) -> bool:
        """Let consumers hold producers up; return whether that came to an end."""
        self._left = self._stages.settle(self._left)
        return self._left >= 0

    def offered(self, node: Node) -> Cycles:
        """Return when each beat of a result is offered."""
        return self._results[node].offered

    def departed(self, node: Node) -> Cycles:
        """Return when all have consumed each beat of a result; -1 where it leaves the chip."""
        return self._results[node].departed()

    def read(self) -> dict[Place, Cycles]:
        """Return when each word from outside is consumed."""
        return {place: stream.departed() for place, stream in self._words.items()}
