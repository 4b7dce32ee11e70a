"""As-late-as-possible (ALAP) schedule, and the queue depths that it needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from torch.fx import Node

from mase_hw.cells import Netlist
from mase_hw.geometry.beats import Cycles
from mase_hw.graph.streams import stream_operands
from mase_hw.timing.loops import Turns
from mase_hw.timing.queue_tree import Edge, Late, queues_behind
from mase_hw.timing.times import BeatTimes

# Beats of a queue that only parts `ready` from `valid`.
LEAST_DEPTH = 2
# Cycles that a queue takes.
QUEUE_CYCLES = 2
# Times that a node is begun earlier, by as much as it is late.
EARLIER = 3

Forks = Mapping[Node, list[Edge]]


@dataclass(frozen=True)
class Schedule:
    """When operands are taken where nothing is computed before it is taken.

    What is offered when `offered` says goes when the first that wants it takes it, or when all have
    taken it that get no queue, and holds its producer up until then. A producer that would be late
    for that begins as much earlier, or else runs free, into queues.

    Attributes:
        netlists: of the nodes.
        forks: operands that may get queues, by what forks.
        offered: when results are offered to consumers that are always ready.
        delays: cycles of the queues before operands.
        times: how times of beats are known.
        step: cycles to which they are.
        taken: when operands are taken.
        free: when results of what computes before it is wanted leave it, into queues.
    """

    netlists: Mapping[Node, Netlist]
    forks: Forks
    offered: Mapping[Node, Cycles]
    delays: Mapping[Edge, int]
    times: BeatTimes
    step: int
    taken: dict[Edge, Cycles] = field(default_factory=dict)
    free: dict[Node, Cycles] = field(default_factory=dict)

    def take(self, turns: Sequence[Turns], direct: Collection[Edge]) -> None:
        """Find when operands are taken, from the last node to the first.

        Args:
            turns: layers that run on the same hardware: what is at their ends is taken at once, and
                runs free from there on, because nothing may hold up what goes round.
            direct: operands that may get a queue and need none.
        """
        self.free.update({node: self.offered[node] for item in turns for node in item.leaving})
        ends = {node for item in turns for node in item.sinks}
        sources = {node: item for item in turns for node in item.sources}
        for node, netlist in reversed(list(self.netlists.items())):
            arrivals = arrivals_of(node, self.offered, self.delays)
            if node in ends:
                self.taken.update({(node, name): times for name, times in arrivals.items()})
                continue
            edges = self.forks.get(node, [])
            waiting = [self.taken[edge] for edge in edges if edge in direct]
            gone = np.maximum.reduce([self._gone(node, edges), *waiting])
            if node in sources:
                self.taken[node, "data_in_0"] = sources[node].taken(node, gone)
                continue
            run = partial(self.times.run, netlist, arrivals, self.step)
            found, left = run(gone)
            if (left > gone).any():
                found, self.free[node] = _begun_earlier(run, gone, left)
            self.taken.update({(node, name): found[name] for name in arrivals})

    def held(self, before: Collection[Node]) -> dict[Node, Cycles]:
        """Return when results leave forks of which an operand never gets a queue, if that is late.

        Such an operand meets what comes from elsewhere; until all go, those that need not wait do,
        too.

        Args:
            before: of which that was said for the schedule before.
        """
        found = {}
        for node, times in self.offered.items():
            queued = self.forks.get(node, [])
            edges = [edge for edge in edges_of(node) if edge in self.taken]
            if len(edges) > 1 and any(edge not in queued for edge in edges):
                gone = self._gone(node, queued)
                if node in before or (gone > times).any():
                    found[node] = gone
        return found

    def queues(self) -> dict[Node, list[Late]]:
        """Return what takes its beats later than another, from when it does."""
        found: dict[Node, list[Late]] = {}
        freed = {
            node: [edge for edge in edges_of(node) if edge in self.taken] for node in self.free
        }
        for producer, edges in {**self.forks, **freed}.items():
            left = self.free[producer] if producer in self.free else self._gone(producer, edges)
            late = queues_behind(
                {edge: self.taken[edge] for edge in edges},
                left,
                partial(self.times.most_waiting, producer),
                self.times.passing,
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

    def _gone(self, node: Node, queued: list[Edge]) -> Cycles:
        """Return when each beat of a result has gone: what gets a queue waits there for it.

        That is when the first takes it of those that may get queues, or its queue does, and when
        all others have.
        """
        edges, taken = edges_of(node), self.taken
        others = [taken[edge] for edge in edges if edge in taken and edge not in queued]
        leaves = any(user.op == "output" for user in node.users)
        if leaves or any(edge not in taken for edge in edges):
            others.append(self.offered[node])
        first = [taken[edge] - self.delays.get(edge, 0) for edge in queued if edge in taken]
        times = [np.minimum.reduce(first), *others] if first else others
        return np.maximum.reduce(times) if times else self.offered[node]

    def _is_port(self, node: Node) -> bool:
        """Return whether a result is an input of the design, with nothing but wires between."""
        while node in self.netlists and self.netlists[node].is_wire:
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
                self.netlists[end].is_wire
                and len(end.users) == 1
                and next(iter(end.users)) in self.netlists
            ):
                (end,) = end.users
            ends.setdefault(end, []).append(edge)
        return [met for met in ends.values() if len(met) > 1]


def _begun_earlier(
    run: Callable[[Cycles | None], tuple[Mapping[str, Cycles], Cycles]], gone: Cycles, left: Cycles
) -> tuple[Mapping[str, Cycles], Cycles]:
    """Return when a node takes its operands, and when its results leave it for a queue.

    Args:
        run: returns that, given when results shall leave.
        gone: when they are wanted.
        left: when they leave at the earliest where they shall leave then, some of them later.
    """
    wanted = gone
    for _ in range(EARLIER):
        wanted = wanted - int((left - gone).max())
        found, left = run(wanted)
        if (left <= gone).all():
            return found, left
    return run(None)


def edges_of(producer: Node) -> list[Edge]:
    """Return the operands that a node's result goes to, in graph order; those of a call twice."""
    return [
        (user, name)
        for user in producer.users
        if user.op == "call_function"
        for name, item in stream_operands(user)
        if item is producer
    ]


def arrivals_of(
    node: Node, offered: Mapping[Node, Cycles], delays: Mapping[Edge, int]
) -> dict[str, Cycles]:
    """Return when beats of each operand are offered, from the queues that they come through."""
    return {
        name: offered[producer] + delays.get((node, name), 0)
        for name, producer in stream_operands(node)
    }
