"""Insert queues where streams meet that take different times to arrive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from mase_hw._registry import nearest
from mase_hw.cells import Netlist
from mase_hw.errors import ConfigError
from mase_hw.geometry.beats import Cycles
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.reference import spec
from mase_hw.graph.streams import refresh_output, stream_operands
from mase_hw.passes._insert import insert_after

ROLE = "fifo"
# Inferences over which occupancies settle, beyond those that are in flight at once.
SETTLING = 2


def insert_fifos_transform_pass(
    mg: MaseGraph, pass_args: Mapping[str, Any] | None = None
) -> tuple[MaseGraph, dict[str, Any]]:
    """Insert a queue on every operand of a join that comes before the others.

    Depths are what a schedule needs in which every input comes evenly at the design's interval:
    the most beats that have come and are not taken. A design whose queues suffice for one
    schedule at an interval runs at least that fast by itself, because buffers that are full or
    empty only ever delay what the schedule does later anyway (self-timed execution of marked
    graphs is monotonic: Commoner et al. 1971).

    Args:
        mg: a graph with parallelism.
        pass_args: `queues` holds depths by the names of queues, in place of computed ones.

    Raises:
        ConfigError: for a queue that is none, or a depth below 1.

    Returns:
        The graph, and `{"fifos": depth by node name}`.
    """
    mg = mg.copy()
    depths = {edge: depth for edge, depth in _occupancies(mg).items() if depth > 1}
    fifos: dict[str, int] = {}
    asked = (pass_args or {}).get("queues", {})
    if not isinstance(asked, Mapping):
        raise ConfigError(f"queues is {asked!r}; allowed: a table of depths by queue")
    for (node, name), computed in depths.items():
        producer = dict(stream_operands(node))[name]
        given = spec(producer)
        queue = insert_after(mg, producer, ROLE, given, given, (computed,))
        _replace_one(node, name, producer, queue)
        fifos[queue.name] = depth = asked.get(queue.name, computed)
        queue.args = (queue.args[0], depth)
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


def _occupancies(mg: MaseGraph) -> dict[tuple[Node, str], int]:
    """Return, for each operand that shares an origin, the most beats that wait for the others.

    Only what comes before such joins takes part: a chain of layers has none.
    """
    edges = _forked(mg)
    if not edges:
        return {}
    before = set().union(*(_origins(node) for node, _ in edges))
    netlists = {node: mg.netlist(node) for node in mg.nodes if node.op == "call_function"}
    work = [netlist.busy_cycles for netlist in netlists.values()]
    interval = max([*work, *(spec(node).beats for node in mg.inputs)])
    netlists = {node: netlist for node, netlist in netlists.items() if node in before}
    latency = max(int(times[-1]) for times in _offered(mg, netlists, interval, 1).values())
    offered = _offered(mg, netlists, interval, latency // interval + SETTLING)
    waiting = {}
    for node, netlist in netlists.items():
        operands = stream_operands(node)
        if any((node, name) in edges for name, _ in operands):
            arrivals = {name: offered[producer] for name, producer in operands}
            taken = netlist.run(arrivals).taken
            for name, times in arrivals.items():
                if (node, name) in edges:
                    waiting[node, name] = _most_waiting(times, taken[name])
    return waiting


def _most_waiting(offered: Cycles, taken: Cycles) -> int:
    """Return the most beats that are offered and not yet taken in any cycle."""
    come = np.searchsorted(np.sort(offered), taken, side="right")
    return int((come - np.arange(taken.size)).max())


def _offered(
    mg: MaseGraph, netlists: Mapping[Node, Netlist], interval: int, inferences: int
) -> dict[Node, Cycles]:
    offered: dict[Node, Cycles] = {}
    for node in mg.nodes:
        if node.op == "placeholder":
            beats = spec(node).beats
            offered[node] = np.arange(inferences * beats) * interval // beats
        elif node in netlists:
            arrivals = {name: offered[producer] for name, producer in stream_operands(node)}
            offered[node] = netlists[node].run(arrivals).offered["data_out_0"]
    return offered


def _forked(mg: MaseGraph) -> set[tuple[Node, str]]:
    """Return the operands of joins that come from a node from which another operand comes, too."""
    joins = [node for node in mg.nodes if node.op == "call_function"]
    found = set[tuple[Node, str]]()
    for node in joins:
        operands = stream_operands(node)
        if len(operands) < 2:
            continue
        origins = {name: _origins(producer) for name, producer in operands}
        for name, mine in origins.items():
            others = (origins[other] for other in origins if other != name)
            if any(mine & item for item in others):
                found.add((node, name))
    return found


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
