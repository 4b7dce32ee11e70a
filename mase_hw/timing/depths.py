"""Depths of queues behind forks whose branches consume beats at different times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain

import networkx as nx
import numpy as np
from torch.fx import Node

from mase_hw.cells import MOVES, SAMPLES, Netlist
from mase_hw.geometry.beats import Cycles
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.physical import PhysicalGraph
from mase_hw.graph.reference import spec
from mase_hw.graph.streams import stream_operands
from mase_hw.timing.loops import Turns
from mase_hw.timing.queue_tree import Edge, Late
from mase_hw.timing.schedule import Schedule, arrivals_of, edges_of
from mase_hw.timing.times import EXACT, SKETCHED, BeatTimes

# Inferences over which occupancies settle, beyond those that are in flight at once.
SETTLING = 2
# Times that a schedule is made anew because queues delay what comes through them.
SCHEDULES = 4


def queue_depths(mg: MaseGraph) -> dict[Node, list[Late]]:
    """Return, by what forks, what takes its beats later than another: operand, place, depth.

    The place is the number of the queue that its queue follows, from 1, or 0 for the fork itself;
    at a depth of 1 it takes its beats there.
    """
    forks = _rejoining(mg)
    if not forks:
        return {}
    netlists = {node: mg.netlist(node) for node in mg.nodes if node.op == "call_function"}
    work = [netlist.busy_cycles * mg.rounds(node) for node, netlist in netlists.items()]
    interval = max([*work, *(spec(node).beats for node in mg.inputs)])
    if not isinstance(mg, PhysicalGraph):
        joins = [node for node in netlists if len(stream_operands(node)) > 1]
        before = set[Node]().union(*map(_origins, joins))
        netlists = {node: netlist for node, netlist in netlists.items() if node in before}
    is_large = sum(netlist.moves for netlist in netlists.values()) > MOVES
    times, step = (SKETCHED, interval // SAMPLES) if is_large else (EXACT, 0)
    turns = Turns.all_of(mg, netlists, times.places)
    found: dict[Node, list[Late]] = {}
    delays: dict[Edge, int] = {}
    held: dict[Node, Cycles] = {}
    layers, once = 1, _inside(mg, netlists, turns, times, delays, 1)
    inner = set[Node]().union(*(item.inside for item in turns))
    for item in turns:
        interval = max(interval, item.count * item.pace(once))
        layers = max(
            layers, max(int(once[node][-1]) for node in item.inside) // item.busy + SETTLING
        )
    waiting: dict[Node, Cycles] | None = None
    direct: set[Edge] = set()
    for _ in range(SCHEDULES):
        if waiting is None or not _same(held, waiting):
            one = _offered(mg, netlists, turns, times, delays, held, interval, 1, 1)
            inferences = max(int(item[-1]) for item in one.values()) // interval + SETTLING
        kept = {
            node: _repeated(item, one[node].size, interval, inferences)
            for node, item in held.items()
        }
        offered = _offered(mg, netlists, turns, times, delays, kept, interval, inferences, layers)
        schedule = Schedule(netlists, forks, offered, delays, times, step)
        schedule.take(turns, direct)
        found = schedule.queues()
        known, waiting, delays = delays, held, _delays(found)
        assumed, direct = direct, set(chain(*forks.values())) - set(delays)
        held = {node: until for node, until in schedule.held(held).items() if node not in inner}
        if delays == known and direct == assumed and _same(held, waiting):
            break
    return found


def _repeated(times: Cycles, size: int, interval: int, inferences: int) -> Cycles:
    """Return times of so many inferences, of which the last ones come at the interval."""
    known = times.reshape(-1, size)
    more = inferences - len(known)
    if more <= 0:
        return times[: inferences * size]
    later = known[-1] + interval * np.arange(1, more + 1)[:, None]
    return np.concatenate([known, later]).reshape(-1)


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


def _offered(
    mg: MaseGraph,
    netlists: Mapping[Node, Netlist],
    turns: Sequence[Turns],
    times: BeatTimes,
    delays: Mapping[Edge, int],
    held: Mapping[Node, Cycles],
    interval: int,
    inferences: int,
    layers: int,
) -> dict[Node, Cycles]:
    """Return when beats are offered to consumers that are always ready.

    Args:
        mg: the graph.
        netlists: of its nodes.
        turns: layers that run on the same hardware.
        times: how times of beats are known.
        delays: of the queues before operands.
        held: until when results wait that leave all at once.
        interval: cycles between inferences.
        inferences: how many come.
        layers: how many come, by the clock of a layer.
    """
    offered = _inside(mg, netlists, turns, times, delays, layers)
    leaving = {node: item for item in turns for node in item.leaving}
    begun = list[Turns]()
    for node in mg.nodes:
        if node.op == "placeholder":
            offered[node] = times.even(spec(node).beats, interval, inferences)
        elif node in leaving:
            item = leaving[node]
            if item not in begun:
                came = {
                    user: arrivals_of(user, offered, delays)["data_in_0"] for user in item.sources
                }
                item.begin(offered, came, inferences)
                begun.append(item)
            offered[node] = item.leaves(node, offered)
        elif node in netlists and node not in offered:
            offered[node] = times.send(netlists[node], arrivals_of(node, offered, delays))
        if node in held:
            offered[node] = np.maximum(offered[node], held[node][: offered[node].size])
    return offered


def _inside(
    mg: MaseGraph,
    netlists: Mapping[Node, Netlist],
    turns: Sequence[Turns],
    times: BeatTimes,
    delays: Mapping[Edge, int],
    layers: int,
) -> dict[Node, Cycles]:
    """Return when beats are offered in layers that run on the same hardware, by their own clock."""
    offered: dict[Node, Cycles] = {}
    inner = set[Node]()
    for item in turns:
        inner |= item.inside
        for node in item.sources:
            offered[node] = times.even(spec(node).beats, item.busy, layers)
    for node in mg.nodes:
        if node in inner:
            offered[node] = times.send(netlists[node], arrivals_of(node, offered, delays))
    return offered


def _rejoining(mg: MaseGraph) -> dict[Node, list[Edge]]:
    """Return, by what forks, the operands that may hold each other up.

    Those are joined by a way that does not pass the fork, in whatever direction streams go on it:
    through a node that waits for both, or through other forks, each of which goes to two nodes that
    wait. Such operands lie in one block of the graph (Hopcroft and Tarjan 1973). So does one that
    meets what comes from before the fork, by another way.
    """
    ways: nx.Graph[Node] = nx.Graph()
    edges = {
        node: edges_of(node) for node in mg.nodes if node.op in ("placeholder", "call_function")
    }
    ways.add_edges_from((node, user) for node in edges for user, _ in edges[node])
    block = {
        frozenset(way): number
        for number, found in enumerate(nx.biconnected_component_edges(ways))
        for way in found
    }
    rejoining = {}
    for node, own in edges.items():
        users = [user for user, _ in own]
        beside = [*users, *(other for other in ways.adj.get(node, ()) if other not in users)]
        count = Counter(block[frozenset((node, other))] for other in beside)
        meet = [edge for edge in own if count[block[frozenset((node, edge[0]))]] > 1]
        if meet and len(own) > 1:
            rejoining[node] = meet
    return rejoining


def _origins(node: Node) -> set[Node]:
    """Return the node and all it comes from."""
    found, open_ = set[Node](), [node]
    while open_:
        item = open_.pop()
        if item not in found and item.op != "get_attr":
            found.add(item)
            open_ += item.all_input_nodes
    return found
