"""The depths of queues behind forks whose branches consume their beats at different times."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

import numpy as np
from torch.fx import Node

from mase_hw.cells import Netlist
from mase_hw.geometry.beats import Cycles
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import stream_operands
from mase_hw.graph.physical import PhysicalGraph
from mase_hw.graph.reference import spec
from mase_hw.timing.alap import Alap
from mase_hw.timing.asap import Asap
from mase_hw.timing.forks import Edge, rejoining
from mase_hw.timing.loops import LoopSchedule
from mase_hw.timing.pace import repeated
from mase_hw.timing.queue_tree import Late
from mase_hw.timing.times import times_of

# Inferences over which occupancies settle, beyond those that are in flight at once.
SETTLING = 2
# Times that a schedule is made anew because queues delay what comes through them.
SCHEDULES = 4


def queue_depths(mg: MaseGraph) -> dict[Node, list[Late]]:
    """Return, by what forks, the operands that are consumed late: operand, place, depth.

    The place is the number of the queue that its queue follows, from 1, or 0 for the fork itself;
    at a depth of 1 it consumes its beats there.
    """
    forks = rejoining(mg)
    return Schedules(mg, forks).settle()[1] if forks else {}


class Schedules:
    """As-late-as-possible schedules, made anew until their queues are those that they assume.

    Args:
        mg: a graph with parallelism.
        forks: operands that may get queues, by what forks.
    """

    def __init__(self, mg: MaseGraph, forks: Mapping[Node, list[Edge]]) -> None:
        netlists = {node: mg.netlist(node) for node in mg.nodes if node.op == "call_function"}
        work = [netlist.busy_cycles * mg.rounds(node) for node, netlist in netlists.items()]
        self._mg, self._forks = mg, forks
        self._interval = max([*work, *(spec(node).beats for node in mg.inputs)])
        self._times = times_of(_before_joins(mg, netlists), self._interval)
        self._loops = LoopSchedule.all_of(mg, self._times)
        self._inner = set[Node]().union(*(loop.inside for loop in self._loops))
        self._iterations = 1
        self._time_loops()

    def _time_loops(self) -> None:
        """Find the interval that loops ask for, and how many iterations to look at."""
        once = Asap(self._mg, self._times, self._loops, {}).inside(1)
        for loop in self._loops:
            self._interval = max(self._interval, loop.count * loop.pace(once))
            latest = max(int(once[node][-1]) for node in loop.inside)
            self._iterations = max(self._iterations, latest // loop.busy + SETTLING)

    def settle(self) -> tuple[Alap, dict[Node, list[Late]]]:
        """Return the last schedule, and its queues."""
        edges = set(chain(*self._forks.values()))
        delays, direct, held = dict[Edge, int](), set[Edge](), dict[Node, Cycles]()
        one = None
        for _ in range(SCHEDULES):
            asap = Asap(self._mg, self._times, self._loops, delays)
            one = one or asap.offered(self._interval, held=held)
            alap = Alap(asap, self._offered(asap, one, held), self._forks)
            alap.run(direct)
            found = alap.queues()
            before = delays, direct, held
            delays = _delays(found)
            direct = edges - set(delays)
            late = alap.held(held).items()
            held = {node: until for node, until in late if node not in self._inner}
            if not _same(held, before[2]):
                one = None
            elif (delays, direct) == before[:2]:
                break
        return alap, found

    def _offered(
        self, asap: Asap, one: Mapping[Node, Cycles], held: Mapping[Node, Cycles]
    ) -> dict[Node, Cycles]:
        """Return when results are offered over as many inferences as are in flight at once.

        Args:
            asap: the schedule.
            one: the same of an inference.
            held: until when results wait that leave all at once.
        """
        interval = self._interval
        inferences = max(int(item[-1]) for item in one.values()) // interval + SETTLING
        kept = {
            node: repeated(item, one[node].size, interval, inferences)
            for node, item in held.items()
        }
        return asap.offered(interval, inferences, self._iterations, kept)


def _before_joins(mg: MaseGraph, netlists: Mapping[Node, Netlist]) -> dict[Node, Netlist]:
    """Return the nodes that a join comes from, or is; of a graph with loops, all."""
    if isinstance(mg, PhysicalGraph):
        return dict(netlists)
    joins = [node for node in netlists if len(stream_operands(node)) > 1]
    before = set[Node]().union(*map(_origins, joins))
    return {node: netlist for node, netlist in netlists.items() if node in before}


def _same(one: Mapping[Node, Cycles], other: Mapping[Node, Cycles]) -> bool:
    """True if both hold the same results up until the same cycles."""
    return one.keys() == other.keys() and all(
        np.array_equal(times, other[node]) for node, times in one.items()
    )


def _delays(late: Mapping[Node, list[Late]]) -> dict[Edge, int]:
    """Return the cycles that queues take on the way to operands: one each."""
    delays: dict[Edge, int] = {}
    for edges in late.values():
        passed = [0]
        for edge, behind, depth in edges:
            if depth > 1:
                passed.append(passed[behind] + 1)
            if edge:
                delays[edge] = passed[-1] if depth > 1 else passed[behind]
    return delays


def _origins(node: Node) -> set[Node]:
    """Return the node and all it comes from."""
    found, open_ = set[Node](), [node]
    while open_:
        item = open_.pop()
        if item not in found and item.op != "get_attr":
            found.add(item)
            open_ += item.all_input_nodes
    return found
