"""Insert queues behind forks whose branches consume beats at different times."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.fx import Node

from mase_hw.errors import ConfigError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import insert_after, refresh_output, stream_operands
from mase_hw.graph.physical import physical
from mase_hw.graph.reference import spec
from mase_hw.passes._pass import Result, graph_pass
from mase_hw.passes.hardware._copies import Copies
from mase_hw.registry import nearest
from mase_hw.timing.depths import queue_depths

ROLE = "fifo"


@graph_pass
def insert_fifos_transform_pass(
    mg: MaseGraph, *, queues: Mapping[str, int] | None = None
) -> Result:
    """Insert queues behind forks, for consumers that consume a result later than another one.

    Depths are those of the as-late-as-possible schedule in which inputs arrive evenly at the
    design's interval: the largest occupancy, beats that the first consumer has consumed and the
    others have not. A consumer that is later than another for all beats follows its queue. A design
    whose queues suffice for one schedule runs at least that fast by itself: full or empty buffers
    only delay what the schedule does later anyway (self-timed execution of marked graphs is
    monotonic: Commoner et al. 1971).

    Args:
        mg: a graph with parallelism.
        queues: depths by the names of queues, in place of computed ones.

    Raises:
        ConfigError: for a queue that is none, or a depth below 1.

    Returns:
        The graph, and `{"fifos": depth by node name}`.
    """
    mg = mg.copy()
    fifos: dict[str, int] = {}
    asked = {} if queues is None else queues
    if not isinstance(asked, Mapping):
        raise ConfigError(f"queues is {asked!r}; allowed: a table of depths by queue")
    part = physical(mg)
    copies = Copies(mg)
    for producer, late in queue_depths(part).items():
        chains = [[item] for item in copies.producers(producer)]
        for edge, behind, computed in late:
            given = spec(producer)
            depth = computed
            for copy, row in enumerate(chains):
                queue = row[behind]
                if computed > 1:
                    queue = insert_after(row[behind], ROLE, given, given, (computed,))
                    if not copy:
                        fifos[queue.name] = depth = asked.get(queue.name, computed)
                    queue.args = (queue.args[0], depth)
                    row.append(queue)
                for user, operand in copies.edges(producer, *edge, copy) if edge else ():
                    _replace_one(user, operand, row[0], queue)
    _check_depths(asked, fifos)
    refresh_output(mg.model)
    mg.recompile()
    return mg, {"fifos": fifos}


def _check_depths(asked: Mapping[str, object], fifos: Mapping[str, int]) -> None:
    """Refuse depths of no queue, and those that are none."""
    for name, depth in asked.items():
        if name not in fifos:
            raise ConfigError(f"queues: no queue is called {name!r}; {nearest(name, fifos)}")
        if not isinstance(depth, int) or isinstance(depth, bool) or depth < 1:
            raise ConfigError(f"queues: {name} is {depth!r}; allowed: a number of beats from 1")


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
