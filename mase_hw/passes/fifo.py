"""Insert queues behind forks whose branches take their beats at different times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import networkx as nx
import numpy as np
import torch
from torch.fx import Node

from mase_hw._registry import nearest
from mase_hw.cells import MOVES, SAMPLES, Arrivals, Curve, Netlist, sampled
from mase_hw.errors import ConfigError
from mase_hw.geometry.beats import Cycles
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.physical import PhysicalGraph, physical
from mase_hw.graph.reference import spec
from mase_hw.graph.streams import refresh_output, stream_operands
from mase_hw.passes._copies import Copies
from mase_hw.passes._insert import insert_after
from mase_hw.passes._queue_tree import Edge, Late, queues_behind
from mase_hw.passes._turns import Turns

ROLE = "fifo"
# Inferences over which occupancies settle, beyond those that are in flight at once.
SETTLING = 2
# Beats of a queue that only parts `ready` from `valid`.
LEAST_DEPTH = 2
# Cycles that a queue takes.
QUEUE_CYCLES = 2

# Times that a schedule is made anew because queues delay what comes through them.
SCHEDULES = 4

# Times that a node is begun earlier, by as much as it is late.
EARLIER = 3

Run = Callable[[Netlist, Arrivals, Cycles | None], tuple[Mapping[str, Cycles], Cycles]]


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
    ways = SKETCHED if is_large else EXACT
    turns = Turns.all_of(mg, netlists, ways.places)
    run: Run = partial(_sketch, step=interval // SAMPLES) if is_large else _run
    found: dict[Node, list[Late]] = {}
    delays: dict[Edge, int] = {}
    held: dict[Node, Cycles] = {}
    layers, once = 1, _inside(mg, netlists, turns, ways, delays, 1)
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
            times = _offered(mg, netlists, turns, ways, delays, held, interval, 1, 1)
            inferences = max(int(item[-1]) for item in times.values()) // interval + SETTLING
        kept = {
            node: _repeated(item, times[node].size, interval, inferences)
            for node, item in held.items()
        }
        offered = _offered(mg, netlists, turns, ways, delays, kept, interval, inferences, layers)
        taken, free = _taken(netlists, turns, forks, direct, offered, delays, run)
        found = _behind(forks, netlists, taken, offered, delays, free, ways)
        known, waiting, delays = delays, held, _delays(found)
        assumed, direct = direct, set(chain(*forks.values())) - set(delays)
        held = _held(forks, taken, offered, delays, held)
        held = {node: times for node, times in held.items() if node not in inner}
        if delays == known and direct == assumed and _same(held, waiting):
            break
    return found


def _held(
    forks: Mapping[Node, list[Edge]],
    taken: Mapping[Edge, Cycles],
    offered: Mapping[Node, Cycles],
    delays: Mapping[Edge, int],
    before: Mapping[Node, Cycles],
) -> dict[Node, Cycles]:
    """Return when results leave forks of which an operand never gets a queue, where that is late.

    Such an operand meets what comes from elsewhere; until all go, those that need not wait do, too.

    Args:
        forks: operands that may get queues, by what forks.
        taken: when operands are taken.
        offered: when results are.
        delays: of the queues before operands.
        before: the same of the schedule before.
    """
    found = {}
    for node, times in offered.items():
        edges = [edge for edge in _edges(node) if edge in taken]
        if len(edges) > 1 and any(edge not in forks.get(node, []) for edge in edges):
            gone = _gone(node, forks.get(node, []), taken, offered, delays)
            if node in before or (gone > times).any():
                found[node] = gone
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


def _arrivals(
    node: Node, offered: Mapping[Node, Cycles], delays: Mapping[Edge, int]
) -> dict[str, Cycles]:
    """Return when beats of each operand are offered, from the queues that they come through."""
    return {
        name: offered[producer] + delays.get((node, name), 0)
        for name, producer in stream_operands(node)
    }


def _behind(
    forks: Mapping[Node, list[Edge]],
    netlists: Mapping[Node, Netlist],
    taken: Mapping[Edge, Cycles],
    offered: Mapping[Node, Cycles],
    delays: Mapping[Edge, int],
    free: Mapping[Node, Cycles],
    ways: _Ways,
) -> dict[Node, list[Late]]:
    """Return what takes its beats later than another, from when it does.

    Args:
        forks: operands whose beats may wait, by what forks.
        netlists: of the nodes.
        taken: when they take beats.
        offered: when beats are offered.
        delays: of the queues before operands.
        free: when results of what computes before it is wanted leave it, into queues.
        ways: how times of beats are known.
    """
    found: dict[Node, list[Late]] = {}
    edges_of = {node: [edge for edge in _edges(node) if edge in taken] for node in free}
    for producer, edges in {**forks, **edges_of}.items():
        left = (
            free[producer] if producer in free else _gone(producer, edges, taken, offered, delays)
        )
        late = queues_behind(
            {edge: taken[edge] for edge in edges},
            left,
            partial(ways.most_waiting, producer),
            ways.passing,
        )
        found |= {producer: late} if late else {}
    for producer, edges in forks.items():
        late = found.get(producer, [])
        alone = [edge for edge in edges if edge not in [queued for queued, _, _ in late]]
        meeting = _met_at_once(alone, netlists) if _is_port(producer, netlists) else []
        # What waits for them waits for their queue, too.
        more = QUEUE_CYCLES if meeting else 0
        late = [(edge, behind, depth + more * (depth > 1)) for edge, behind, depth in late]
        for met in meeting:
            late.append((met[0], 0, LEAST_DEPTH))
            place = sum(depth > 1 for _, _, depth in late)
            late += [(edge, place, 1) for edge in met[1:]]
        found |= {producer: late} if late else {}
    return found


def _is_port(node: Node, netlists: Mapping[Node, Netlist]) -> bool:
    """Return whether a result is an input of the design, with nothing but wires between."""
    while node in netlists and netlists[node].is_wire:
        ((_, node),) = stream_operands(node)
    return node.op == "placeholder"


def _met_at_once(edges: list[Edge], netlists: Mapping[Node, Netlist]) -> list[list[Edge]]:
    """Return the operands that meet with nothing but wires between, by where they meet.

    A node that waits for both would be ready for one while the other is there: for a port of the
    design, which is both, `ready` would follow `valid`.
    """
    ends: dict[Node, list[Edge]] = {}
    for edge in edges:
        end = edge[0]
        while netlists[end].is_wire and len(end.users) == 1 and next(iter(end.users)) in netlists:
            (end,) = end.users
        ends.setdefault(end, []).append(edge)
    return [met for met in ends.values() if len(met) > 1]


def _edges(producer: Node) -> list[Edge]:
    """Return the operands that a node's result goes to, in graph order; those of a call twice."""
    return [
        (user, name)
        for user in producer.users
        if user.op == "call_function"
        for name, item in stream_operands(user)
        if item is producer
    ]


def _taken(
    netlists: Mapping[Node, Netlist],
    turns: Sequence[Turns],
    forks: Mapping[Node, list[Edge]],
    direct: Collection[Edge],
    offered: Mapping[Node, Cycles],
    delays: Mapping[Edge, int],
    run: Run,
) -> tuple[dict[Edge, Cycles], dict[Node, Cycles]]:
    """Return when operands are taken where nothing is computed before it is taken.

    What is offered when `offered` says goes when the first that wants it takes it, or when all have
    taken it that get no queue, and holds its producer up until then. A producer that would be late
    for that begins as much earlier, or else runs free, into queues; when the results of those leave
    them is returned, too.

    Args:
        netlists: of the nodes.
        turns: layers that run on the same hardware: what is at their ends is taken at once, and
            runs free from there on, because nothing may hold up what goes round.
        forks: operands that may get queues, by what forks.
        direct: those of them that need none.
        offered: when results are offered to consumers that are always ready.
        delays: of the queues before operands.
        run: returns when a node takes its operands, given when its results shall leave, and when
            they do.
    """
    taken: dict[Edge, Cycles] = {}
    free = {node: offered[node] for item in turns for node in item.leaving}
    ends = {node for item in turns for node in item.sinks}
    sources = {node: item for item in turns for node in item.sources}
    for node, netlist in reversed(list(netlists.items())):
        arrivals = _arrivals(node, offered, delays)
        if node in ends:
            taken |= {(node, name): times for name, times in arrivals.items()}
            continue
        gone = _gone(node, forks.get(node, []), taken, offered, delays)
        held = [taken[edge] for edge in forks.get(node, []) if edge in direct]
        gone = np.maximum.reduce([gone, *held])
        if node in sources:
            taken[node, "data_in_0"] = sources[node].taken(node, gone)
            continue
        found, left = run(netlist, arrivals, gone)
        if (left > gone).any():
            found, free[node] = _begun_earlier(partial(run, netlist, arrivals), gone, left)
        taken |= {(node, name): found[name] for name in arrivals}
    return taken, free


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


def _run(
    netlist: Netlist, arrivals: Arrivals, gone: Cycles | None
) -> tuple[Mapping[str, Cycles], Cycles]:
    """Return when operands are taken, and when results leave."""
    flow = netlist.run(arrivals, gone)
    offered = flow.offered["data_out_0"]
    return flow.taken, offered if gone is None else np.maximum(offered, gone)


def _sketch(
    netlist: Netlist, arrivals: Arrivals, gone: Cycles | None, step: int
) -> tuple[Mapping[str, Cycles], Cycles]:
    """Return when some beats of operands are taken, and when they leave, to within a step."""
    curves = {name: Curve(netlist.inputs[name].beats, times) for name, times in arrivals.items()}
    sketch = netlist.sketch(curves, gone)
    taken = {name: curve.times for name, curve in sketch.taken.items()}
    offered = sketch.offered.times
    if gone is None:
        return taken, offered
    return taken, np.where(offered > gone + step, offered, gone)


def _gone(
    node: Node,
    queued: list[Edge],
    taken: Mapping[Edge, Cycles],
    offered: Mapping[Node, Cycles],
    delays: Mapping[Edge, int],
) -> Cycles:
    """Return when each beat of a result has gone: what gets a queue waits there for it.

    That is when the first takes it of those that may get queues, or its queue does, and when all
    others have.
    """
    edges = _edges(node)
    others = [taken[edge] for edge in edges if edge in taken and edge not in queued]
    if any(edge not in taken for edge in edges) or any(user.op == "output" for user in node.users):
        others.append(offered[node])
    first = [taken[edge] - delays.get(edge, 0) for edge in queued if edge in taken]
    times = [np.minimum.reduce(first), *others] if first else others
    return np.maximum.reduce(times) if times else offered[node]


def _most_waiting(producer: Node, offered: Cycles, taken: Cycles) -> int:
    """Return the most beats that are offered and not yet taken in any cycle."""
    come = np.searchsorted(np.sort(offered), taken, side="right")
    return int((come - np.arange(taken.size)).max())


def _offered(
    mg: MaseGraph,
    netlists: Mapping[Node, Netlist],
    turns: Sequence[Turns],
    ways: _Ways,
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
        ways: whether all beats count, or some.
        delays: of the queues before operands.
        held: until when results wait that leave all at once.
        interval: cycles between inferences.
        inferences: how many come.
        layers: how many come, by the clock of a layer.
    """
    offered = _inside(mg, netlists, turns, ways, delays, layers)
    leaving = {node: item for item in turns for node in item.leaving}
    begun = list[Turns]()
    for node in mg.nodes:
        if node.op == "placeholder":
            offered[node] = ways.even(spec(node).beats, interval, inferences)
        elif node in leaving:
            item = leaving[node]
            if item not in begun:
                came = {
                    user: _arrivals(user, offered, delays)["data_in_0"] for user in item.sources
                }
                item.begin(offered, came, inferences)
                begun.append(item)
            offered[node] = item.leaves(node, offered)
        elif node in netlists and node not in offered:
            offered[node] = ways.send(netlists[node], _arrivals(node, offered, delays))
        if node in held:
            offered[node] = np.maximum(offered[node], held[node][: offered[node].size])
    return offered


def _inside(
    mg: MaseGraph,
    netlists: Mapping[Node, Netlist],
    turns: Sequence[Turns],
    ways: _Ways,
    delays: Mapping[Edge, int],
    layers: int,
) -> dict[Node, Cycles]:
    """Return when beats are offered in layers that run on the same hardware, by their own clock."""
    offered: dict[Node, Cycles] = {}
    inner = set[Node]()
    for item in turns:
        inner |= item.inside
        for node in item.sources:
            offered[node] = ways.even(spec(node).beats, item.busy, layers)
    for node in mg.nodes:
        if node in inner:
            offered[node] = ways.send(netlists[node], _arrivals(node, offered, delays))
    return offered


@dataclass(frozen=True)
class _Ways:
    """How times of beats are known.

    Attributes:
        places: returns the beats of a tensor whose times are.
        even: returns when beats come evenly, given beats, cycles between inferences, and how many.
        send: returns when results are offered, given when operands are.
        most_waiting: returns the most beats of a result that have gone and are not yet taken.
        passing: cycles from one queue to the next; 0 where times are not known to the cycle.
    """

    places: Callable[[int], Cycles]
    even: Callable[[int, int, int], Cycles]
    send: Callable[[Netlist, Mapping[str, Cycles]], Cycles]
    most_waiting: Callable[[Node, Cycles, Cycles], int]
    passing: int


def _even(beats: int, interval: int, inferences: int) -> Cycles:
    return np.arange(inferences * beats) * interval // beats


def _send(netlist: Netlist, arrivals: Mapping[str, Cycles]) -> Cycles:
    return netlist.run(arrivals).offered["data_out_0"]


def _even_sketched(beats: int, interval: int, inferences: int) -> Cycles:
    return Curve.even(beats, interval, inferences).times


def _send_sketched(netlist: Netlist, arrivals: Mapping[str, Cycles]) -> Cycles:
    curves = {name: Curve(netlist.inputs[name].beats, times) for name, times in arrivals.items()}
    return netlist.sketch(curves).offered.times


def _most_waiting_between(producer: Node, gone: Cycles, taken: Cycles) -> int:
    """Return the most beats that wait, at most, where times of some beats are known."""
    came, went = Curve(spec(producer).beats, gone), Curve(spec(producer).beats, taken)
    return max(1, int((came.come_by(taken) - went.places).max()))


EXACT = _Ways(np.arange, _even, _send, _most_waiting, 1)
SKETCHED = _Ways(sampled, _even_sketched, _send_sketched, _most_waiting_between, 0)


def _rejoining(mg: MaseGraph) -> dict[Node, list[Edge]]:
    """Return, by what forks, the operands that may hold each other up.

    Those are joined by a way that does not pass the fork, in whatever direction streams go on it:
    through a node that waits for both, or through other forks, each of which goes to two nodes that
    wait. Such operands lie in one block of the graph (Hopcroft and Tarjan 1973). So does one that
    meets what comes from before the fork, by another way.
    """
    ways: nx.Graph[Node] = nx.Graph()
    edges = {node: _edges(node) for node in mg.nodes if node.op in ("placeholder", "call_function")}
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
