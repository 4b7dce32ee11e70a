"""The depths of queues behind forks whose branches consume their beats at different times."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

import numpy as np
from torch.fx import Node

from mase_hw.geometry.beats import Cycles
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.physical import PhysicalGraph
from mase_hw.graph.reference import spec
from mase_hw.graph.streams import stream_operands
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
    at a depth of 1 it takes its beats there.
    """
    forks = rejoining(mg)
    if not forks:
        return {}
    netlists = {node: mg.netlist(node) for node in mg.nodes if node.op == "call_function"}
    work = [netlist.busy_cycles * mg.rounds(node) for node, netlist in netlists.items()]
    interval = max([*work, *(spec(node).beats for node in mg.inputs)])
    if not isinstance(mg, PhysicalGraph):
        joins = [node for node in netlists if len(stream_operands(node)) > 1]
        before = set[Node]().union(*map(_origins, joins))
        netlists = {node: netlist for node, netlist in netlists.items() if node in before}
    times = times_of(netlists, interval)
    loops = LoopSchedule.all_of(mg, times)
    found: dict[Node, list[Late]] = {}
    asap = Asap(mg, times, loops, {})
    iterations, once = 1, asap.inside(1)
    inner = set[Node]().union(*(loop.inside for loop in loops))
    for loop in loops:
        interval = max(interval, loop.count * loop.pace(once))
        latest = max(int(once[node][-1]) for node in loop.inside)
        iterations = max(iterations, latest // loop.busy + SETTLING)
    held: dict[Node, Cycles] = {}
    waiting: dict[Node, Cycles] | None = None
    direct: set[Edge] = set()
    for _ in range(SCHEDULES):
        if waiting is None or not _same(held, waiting):
            one = asap.offered(interval, held=held)
            inferences = max(int(item[-1]) for item in one.values()) // interval + SETTLING
        kept = {
            node: repeated(item, one[node].size, interval, inferences)
            for node, item in held.items()
        }
        alap = Alap(asap, asap.offered(interval, inferences, iterations, kept), forks)
        alap.run(direct)
        found = alap.queues()
        known, waiting = asap.delays, held
        asap = Asap(mg, times, loops, _delays(found))
        assumed, direct = direct, set(chain(*forks.values())) - set(asap.delays)
        held = {node: until for node, until in alap.held(held).items() if node not in inner}
        if asap.delays == known and direct == assumed and _same(held, waiting):
            break
    return found


def _same(one: Mapping[Node, Cycles], other: Mapping[Node, Cycles]) -> bool:
    """Return whether both hold the same results up until the same cycles."""
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
