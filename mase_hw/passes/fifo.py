"""Insert queues behind forks whose branches take their beats at different times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import networkx as nx
import numpy as np
import torch
from torch.fx import Node

from mase_hw._registry import nearest
from mase_hw.cells import MOVES, SAMPLES, Netlist
from mase_hw.errors import ConfigError
from mase_hw.geometry.beats import Cycles
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.physical import PhysicalGraph, physical
from mase_hw.graph.reference import spec
from mase_hw.graph.streams import refresh_output, stream_operands
from mase_hw.passes._beat_times import EXACT, SKETCHED, BeatTimes
from mase_hw.passes._copies import Copies
from mase_hw.passes._insert import insert_after
from mase_hw.passes._queue_schedule import Schedule, arrivals_of, edges_of
from mase_hw.passes._queue_tree import Edge, Late
from mase_hw.passes._turns import Turns

ROLE = "fifo"
# Inferences over which occupancies settle, beyond those that are in flight at once.
SETTLING = 2
# Times that a schedule is made anew because queues delay what comes through them.
SCHEDULES = 4


def insert_fifos_transform_pass(
    mg: MaseGraph, pass_args: Mapping[str, Any] | None = None
) -> tuple[MaseGraph, dict[str, Any]]:
    """Insert queues behind forks, for those who take a result later than another that it goes to.

    Depths are what a schedule needs in which every input comes evenly at the design's interval, and
    nothing is computed before it is taken: the most beats that have gone to the first who takes
    them and not to the others. Of those, one that takes all beats later than another follows its
    queue. A design whose queues suffice for one schedule at an interval runs at least that fast by
    itself, because buffers that are full or empty only ever delay what the schedule does later
    anyway (self-timed execution of marked graphs is monotonic: Commoner et al. 1971).

    Args:
        mg: a graph with parallelism.
        pass_args: `queues` holds depths by the names of queues, in place of computed ones.

    Raises:
        ConfigError: for a queue that is none, or a depth below 1.

    Returns:
        The graph, and `{"fifos": depth by node name}`.
    """
    mg = mg.copy()
    fifos: dict[str, int] = {}
    asked = (pass_args or {}).get("queues", {})
    if not isinstance(asked, Mapping):
        raise ConfigError(f"queues is {asked!r}; allowed: a table of depths by queue")
    part = physical(mg)
    copies = Copies(mg)
    for producer, late in _late(part).items():
        queues = [[item] for item in copies.producers(producer)]
        for edge, behind, computed in late:
            given = spec(producer)
            depth = computed
            for copy, row in enumerate(queues):
                queue = row[behind]
                if computed > 1:
                    queue = insert_after(mg, row[behind], ROLE, given, given, (computed,))
                    if not copy:
                        fifos[queue.name] = depth = asked.get(queue.name, computed)
                    queue.args = (queue.args[0], depth)
                    row.append(queue)
                for user, operand in copies.edges(producer, *edge, copy) if edge else ():
                    _replace_one(user, operand, row[0], queue)
    _check_depths(asked, fifos)
    refresh_output(mg)
    mg.recompile()
    return mg, {"fifos": fifos}


def _check_depths(asked: Mapping[str, Any], fifos: Mapping[str, int]) -> None:
    """Refuse depths of no queue, and those that are none."""
    for name, depth in asked.items():
        if name not in fifos:
            raise ConfigError(f"queues: no queue is called {name!r}; {nearest(name, fifos)}")
        if not isinstance(depth, int) or isinstance(depth, bool) or depth < 1:
            raise ConfigError(f"queues: {name} is {depth!r}; allowed: a number of beats from 1")


def _late(mg: MaseGraph) -> dict[Node, list[Late]]:
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


def _replace_one(node: Node, name: str, producer: Node, queue: Node) -> None:
    """Replace the use of `producer` as one operand; another operand may be the same node."""
    position = [operand for operand, item in stream_operands(node) if item is producer].index(name)
    seen = -1

    def swap(item: Node) -> Node:
        nonlocal seen
        if item is producer:
            seen += 1
            return queue if seen == position else item
        return item

    node.args = torch.fx.map_arg(node.args, swap)
    node.kwargs = torch.fx.map_arg(node.kwargs, swap)
