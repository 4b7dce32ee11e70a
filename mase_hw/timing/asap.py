"""As-soon-as-possible schedule: when beats are offered to consumers that are always ready."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from torch.fx import Node

from mase_hw.geometry.beats import Cycles
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import stream_operands
from mase_hw.graph.reference import spec
from mase_hw.timing.forks import Edge
from mase_hw.timing.loops import LoopSchedule
from mase_hw.timing.times import Times


@dataclass(frozen=True)
class Asap:
    """An as-soon-as-possible schedule.

    Attributes:
        mg: the graph.
        times: of its nodes.
        loops: of the graph.
        delays: cycles that queues before operands take.
    """

    mg: MaseGraph
    times: Times
    loops: Sequence[LoopSchedule]
    delays: Mapping[Edge, int]

    def arrivals(self, node: Node, offered: Mapping[Node, Cycles]) -> dict[str, Cycles]:
        """Return when beats of each operand are offered, by the queues that they pass."""
        return {
            name: offered[producer] + self.delays.get((node, name), 0)
            for name, producer in stream_operands(node)
        }

    def offered(
        self,
        interval: int | None = None,
        inferences: int = 1,
        iterations: int = 1,
        held: Mapping[Node, Cycles] | None = None,
    ) -> dict[Node, Cycles]:
        """Return when beats are offered, outside of loops, and in an iteration of each loop.

        Args:
            interval: cycles between inferences, in which inputs come evenly; None for inputs of a
                beat a cycle.
            inferences: how many come.
            iterations: how many come in each loop, timed from its own beginning.
            held: until when results wait that leave all at once.
        """
        offered, held = self.inside(iterations), held or {}
        leaving = {node: loop for loop in self.loops for node in loop.leaving}
        begun = list[LoopSchedule]()
        for node in self.mg.nodes:
            if node.op == "placeholder":
                beats = spec(node).beats
                offered[node] = self.times.even(beats, interval or beats, inferences)
            elif node in leaving:
                loop = leaving[node]
                if loop not in begun:
                    sources = {user: self.arrivals(user, offered) for user in loop.sources}
                    came = {user: arrivals["data_in_0"] for user, arrivals in sources.items()}
                    loop.begin(offered, came, inferences)
                    begun.append(loop)
                offered[node] = loop.leaves(node, offered)
            elif node in self.times.netlists and node not in offered:
                _, offered[node] = self.times.run(node, self.arrivals(node, offered))
            if node in held:
                offered[node] = np.maximum(offered[node], held[node][: offered[node].size])
        return offered

    def inside(self, iterations: int) -> dict[Node, Cycles]:
        """Return when beats are offered in loops, from the beginning of the first iteration."""
        offered: dict[Node, Cycles] = {}
        inner = set[Node]()
        for loop in self.loops:
            inner |= loop.inside
            for node in loop.sources:
                offered[node] = self.times.even(spec(node).beats, loop.busy, iterations)
        for node in self.mg.nodes:
            if node in inner:
                _, offered[node] = self.times.run(node, self.arrivals(node, offered))
        return offered
