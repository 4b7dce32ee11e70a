"""As-late-as-possible schedule, and the queues that it needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from torch.fx import Node

from mase_hw.geometry.beats import Cycles
from mase_hw.graph.nodes import consumers, stream_operands
from mase_hw.timing.asap import Asap
from mase_hw.timing.forks import Edge
from mase_hw.timing.queue_tree import Late, queues_behind
from mase_hw.timing.stages import NodeTimes

# Beats of a queue that only parts `ready` from `valid`.
LEAST_DEPTH = 2
# Cycles that a queue takes.
QUEUE_CYCLES = 2
# Times that a node is begun earlier, by as much as it is late.
EARLIER = 3


@dataclass(frozen=True)
class Alap:
    """When operands are consumed if no result is computed before it is consumed.

    A result departs when the first of its consumers does, or when all have that get no queue,
    and holds its producer up until then. A producer that would be late for that begins as much
    earlier, or else runs free, into queues.

    Attributes:
        asap: the as-soon-as-possible schedule.
        offered: when results are offered in it.
        forks: operands that may get queues, by what forks.
        consumed: when operands are consumed.
        free: when results of a producer that runs ahead depart, into queues.
    """

    asap: Asap
    offered: Mapping[Node, Cycles]
    forks: Mapping[Node, list[Edge]]
    consumed: dict[Edge, Cycles] = field(default_factory=dict)
    free: dict[Node, Cycles] = field(default_factory=dict)

    def run(self, direct: Collection[Edge]) -> None:
        """Find when operands are consumed, from the last node to the first.

        At the ends of loops beats are consumed at once, and run free from there on, because nothing
        may hold up what goes round.

        Args:
            direct: operands that may get a queue and need none.
        """
        loops, times = self.asap.loops, self.asap.times
        self.free.update({node: self.offered[node] for loop in loops for node in loop.leaving})
        ends = {node for loop in loops for node in loop.sinks}
        sources = {node: loop for loop in loops for node in loop.sources}
        for node in reversed(list(times.netlists)):
            arrivals = self.asap.arrivals(node, self.offered)
            if node in ends:
                self.consumed.update({(node, name): cycles for name, cycles in arrivals.items()})
                continue
            edges = self.forks.get(node, [])
            waiting = [self.consumed[edge] for edge in edges if edge in direct]
            departures = np.maximum.reduce([self._departures(node, edges), *waiting])
            if node in sources:
                consumed = sources[node].consumed(node, departures)
                self.consumed[node, "data_in_0"] = consumed
                continue
            run = partial(times.run, node, arrivals)
            found, left = run(departures)
            if (left > departures).any():
                found, self.free[node] = _begun_earlier(run, departures, left)
            self.consumed.update({(node, name): found[name] for name in arrivals})

    def held(self, before: Collection[Node]) -> dict[Node, Cycles]:
        """Return when results leave forks of which an operand never gets a queue, if that is late.

        Such an operand meets what comes from elsewhere; until all go, those that need not wait do,
        too.

        Args:
            before: of which that was said for the schedule before.
        """
        found = {}
        for node, times in self.offered.items():
            queued, edges = self.forks.get(node, []), self._edges(node)
            if len(edges) > 1 and any(edge not in queued for edge in edges):
                departures = self._departures(node, queued)
                if node in before or (departures > times).any():
                    found[node] = departures
        return found

    def queues(self) -> dict[Node, list[Late]]:
        """Consumers of beats that are later than another, and the cycle from which they are."""
        found: dict[Node, list[Late]] = {}
        times = self.asap.times
        freed = {node: self._edges(node) for node in self.free}
        for producer, edges in {**self.forks, **freed}.items():
            left = self.free.get(producer)
            if left is None:
                left = self._departures(producer, edges)
            late = queues_behind(
                {edge: self.consumed[edge] for edge in edges},
                left,
                partial(times.occupancy, producer),
                times.passing,
            )
            found |= {producer: late} if late else {}
        for producer, edges in self.forks.items():
            late = found.get(producer, [])
            queued = [edge for edge, _, _ in late]
            alone = [edge for edge in edges if edge not in queued]
            meeting = self._met_at_once(alone) if self._is_port(producer) else []
            # What waits for them waits for their queue, too.
            more = QUEUE_CYCLES if meeting else 0
            late = [(edge, behind, depth + more * (depth > 1)) for edge, behind, depth in late]
            for met in meeting:
                late.append((met[0], 0, LEAST_DEPTH))
                place = sum(depth > 1 for _, _, depth in late)
                late += [(edge, place, 1) for edge in met[1:]]
            found |= {producer: late} if late else {}
        return found

    def _departures(self, node: Node, queued: list[Edge]) -> Cycles:
        """Return when each beat of a result departs: what gets a queue waits there for it.

        That is when the first of those that may get queues consumes it, or its queue does, and when
        all others have.
        """
        edges, consumed = list(consumers(node)), self.consumed
        others = [consumed[edge] for edge in edges if edge in consumed and edge not in queued]
        leaves = any(user.op == "output" for user in node.users)
        if leaves or any(edge not in consumed for edge in edges):
            others.append(self.offered[node])
        first = [
            consumed[edge] - self.asap.delays.get(edge, 0) for edge in queued if edge in consumed
        ]
        times = [np.minimum.reduce(first), *others] if first else others
        return np.maximum.reduce(times) if times else self.offered[node]

    def _edges(self, node: Node) -> list[Edge]:
        """Return the operands that a result goes to, as far as they are known."""
        return [edge for edge in consumers(node) if edge in self.consumed]

    def _is_port(self, node: Node) -> bool:
        """True if a result is an input of the design, with nothing but wires between."""
        while node in self.asap.times.netlists and self.asap.times.netlists[node].is_wire:
            ((_, node),) = stream_operands(node)
        return node.op == "placeholder"

    def _met_at_once(self, edges: list[Edge]) -> list[list[Edge]]:
        """Return the operands that meet with nothing but wires between, by where they meet.

        A node that waits for both would be ready for one while the other is there: for a port of
        the design, which is both, `ready` would follow `valid`.
        """
        ends: dict[Node, list[Edge]] = {}
        for edge in edges:
            end = edge[0]
            while (
                self.asap.times.netlists[end].is_wire
                and len(end.users) == 1
                and next(iter(end.users)) in self.asap.times.netlists
            ):
                (end,) = end.users
            ends.setdefault(end, []).append(edge)
        return [met for met in ends.values() if len(met) > 1]


def _begun_earlier(
    run: Callable[[Cycles | None], NodeTimes], departures: Cycles, left: Cycles
) -> NodeTimes:
    """Return when a node consumes its operands, and when its results leave it for a queue.

    Args:
        run: returns that, given when results shall depart.
        departures: when they are wanted.
        left: when they leave at the earliest where they shall depart then, some of them later.
    """
    wanted = departures
    for _ in range(EARLIER):
        wanted = wanted - int((left - departures).max())
        found, left = run(wanted)
        if (left <= departures).all():
            return found, left
    return run(None)
