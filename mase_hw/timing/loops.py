"""Loops: when layers, or steps, run one after the other on the same hardware.

Beats inside a loop are timed from when their iteration begins. Beats that enter from outside or
leave move at that time after their own iteration has begun.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from torch.fx import Node

from mase_hw.geometry.beats import Cycles
from mase_hw.graph.loops import Loop, is_take
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import stream_operands
from mase_hw.graph.physical import FEEDBACK, PhysicalGraph
from mase_hw.graph.reference import spec
from mase_hw.timing.times import Times


@dataclass(eq=False)
class LoopSchedule:
    """One loop of a schedule.

    Attributes:
        loop: its nodes.
        count: iterations of an inference.
        busy: cycles between iterations, at least.
        times: of the design.
        starts: when each iteration of each inference begins.
    """

    loop: Loop
    count: int
    busy: int
    times: Times
    starts: Cycles

    @classmethod
    def all_of(cls, mg: MaseGraph, times: Times) -> list[LoopSchedule]:
        """Return the loops of a graph."""
        found = []
        for loop in mg.sharing.loops if isinstance(mg, PhysicalGraph) else ():
            inside = [node for node in loop.layers[0] if not is_take(node)]
            work = [times.netlists[node].busy_cycles for node in inside]
            work += [spec(node).beats for node in (*loop.entries, *loop.takes)]
            count = max(mg.rounds(node) for node in loop.layers[0])
            found.append(cls(loop, count, max(work), times, np.zeros(0, dtype=np.int64)))
        return found

    @property
    def sources(self) -> tuple[Node, ...]:
        """The nodes from which beats enter an iteration, evenly."""
        return (*self.loop.entries, *self.loop.takes)

    @property
    def inside(self) -> set[Node]:
        """The nodes that consume beats and offer beats in an iteration."""
        ends = {end for end in self.loop.ends if self.loop.goes_on(end)}
        return {*self.loop.layers[0], *ends} - set(self.loop.takes)

    @property
    def leaving(self) -> set[Node]:
        """The nodes that consume beats in an iteration and offer them outside."""
        return self.sinks - self.inside

    @property
    def sinks(self) -> set[Node]:
        """The nodes that consume beats at once."""
        return {*self.loop.ends, *self.loop.collects}

    def pace(self, offered: Mapping[Node, Cycles]) -> int:
        """Return the cycles between iterations: beats that come back enter the next one."""
        paces = [self.busy]
        for begin, end in zip(self.loop.entries, self.loop.ends, strict=True):
            came = self._first(offered[end.all_input_nodes[0]], spec(end).beats)
            entered = self._first(offered[begin], spec(begin).beats)
            paces.append(int((came - entered).max()) + self._lag(begin, FEEDBACK))
        return max(paces)

    def begin(
        self, offered: Mapping[Node, Cycles], came: Mapping[Node, Cycles], inferences: int
    ) -> None:
        """Let each iteration begin when the one before has gone on and its beats have come.

        Args:
            offered: when beats are offered, inside from the beginning of the iteration.
            came: when beats from outside are offered, by the node that consumes them.
            inferences: how many follow each other.
        """
        late = np.zeros((inferences, self.count), dtype=np.int64)
        for node in self.sources:
            times = came[node].reshape(inferences, -1)
            iterations, own = self._own(node, offered[node], is_take(node))
            for iteration in range(self.count):
                mine = iterations == iteration
                if mine.any():
                    here = (times - own)[:, mine].max(axis=1)
                    late[:, iteration] = np.maximum(late[:, iteration], here)
        pace, starts = self.pace(offered), late.reshape(-1)
        order = np.arange(starts.size) * pace
        self.starts = (np.maximum.accumulate(starts - order) + order).reshape(late.shape)

    def leaves(self, node: Node, offered: Mapping[Node, Cycles]) -> Cycles:
        """Return when beats leave the loop, at an end or in rows."""
        ((name, given),) = stream_operands(node)
        rows = node in self.loop.collects
        iterations, own = self._own(node, offered[given], rows)
        if not rows:
            iterations, own = iterations + self.count - 1, own + self._lag(node, name)
        return (self.starts[:, iterations] + own).reshape(-1)

    def consumed(self, node: Node, departures: Cycles) -> Cycles:
        """Return when beats from outside are consumed, given when they go on inside."""
        iterations, own = self._own(node, departures, is_take(node))
        return (self.starts[:, iterations] + own).reshape(-1)

    def _lag(self, node: Node, operand: str) -> int:
        """Return the cycles from an operand to the result."""
        return sum(cell.motion.lag for cell, _ in self.times.netlists[node].path(operand))

    def _own(self, node: Node, times: Cycles, rows: bool) -> tuple[Cycles, Cycles]:
        """Return the iteration of each beat outside, and when the beat moves in it."""
        whole = spec(node).beats
        each = whole
        if rows:
            each, whole = (
                (whole, whole * self.count) if is_take(node) else (whole // self.count, whole)
            )
        iterations, place = np.divmod(self.times.places(whole), each)
        return iterations, self._first(times, each, place)

    def _first(self, times: Cycles, beats: int, wanted: Cycles | None = None) -> Cycles:
        """Return when beats of the first iteration move."""
        known = self.times.places(beats)
        wanted = known if wanted is None else wanted
        return np.ceil(np.interp(wanted, known, times[: known.size])).astype(np.int64)
