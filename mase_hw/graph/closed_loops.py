"""Closed loops: steps between boundaries, each with its part of sequences and a row of results."""

from __future__ import annotations

from collections.abc import Sequence

from torch.fx import Node

from mase_hw._aten import aten
from mase_hw.graph._rejoin import call, rejoin
from mase_hw.graph.encoding import decode_target
from mase_hw.graph.loops import COLLECT, ROLE, TAKE
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import common
from mase_hw.graph.unrolled_loops import UnrolledLoop, part_of
from mase_hw.ops import operator_for_role


def close_loop(mg: MaseGraph, loop: UnrolledLoop, number: int) -> list[Node]:
    """Write the steps of a loop, in place, as steps that run on the same hardware.

    Common metadata of new nodes is not known then.

    Args:
        mg: the graph.
        loop: one of its loops.
        number: which of them.

    Returns:
        The boundaries.
    """
    for nodes in loop.takes:
        _take(mg, loop, nodes)
    for nodes in loop.shared:
        _repeat(mg, loop, nodes)
    inside = {node for step in loop.steps for node in step}
    boundaries: list[Node] = []
    results: dict[Node, Node] = {}
    for state, row in enumerate(loop.states):
        begin = _boundary(mg, row[0], (number, state, 0), set(loop.steps[0]))
        boundaries.append(begin)
        for place, node in enumerate(row[1:], 1):
            results[node] = _boundary(mg, node, (number, state, place), None)
        boundaries += [results[node] for node in row[1:]]
    last = loop.steps[-1][-1]
    last = results.get(last, last)
    inside |= set(boundaries)
    for nodes in zip(*loop.steps, strict=True):
        ends = [results.get(node, node) for node in nodes]
        *outside, leaves = (any(user not in inside for user in node.users) for node in ends)
        if any(outside) or (leaves and any(user in inside for user in ends[-1].users)):
            with mg.fx_graph.inserting_after(last):
                rows = call(mg, nodes[-1], _target(COLLECT), ends, number)
            rejoin(mg, ends, rows, inside)
    mg.fx_graph.eliminate_dead_code()
    return boundaries


def _boundary(
    mg: MaseGraph, node: Node, place: tuple[int, int, int], users: set[Node] | None
) -> Node:
    readers = [user for user in node.users if users is None or user in users]
    with mg.fx_graph.inserting_after(node):
        boundary = call(mg, node, _target(ROLE), node, *place)
    for user in readers:
        user.replace_input_with(node, boundary)
    return boundary


def _target(role: str) -> object:
    return decode_target("call_function", operator_for_role(role).targets[0])


def _take(mg: MaseGraph, loop: UnrolledLoop, nodes: Sequence[Node]) -> None:
    parts = [part for node in nodes if (part := part_of(node)) is not None]
    first, last = parts[0].index, parts[-1].index
    source, dim = parts[0].source, parts[0].dim
    shape = common(source).results["data_out_0"].shape
    with mg.fx_graph.inserting_before(nodes[0] if nodes[0] < nodes[-1] else nodes[-1]):
        rows = source
        if abs(last - first) + 1 < shape[dim]:
            begin, end = min(first, last), max(first, last) + 1
            rows = call(mg, nodes[0], aten.slice.Tensor, rows, dim, begin, end)
        if last < first:
            rows = call(mg, nodes[0], aten.flip.default, rows, [dim])
        if dim != 1:
            order = [axis for axis in range(len(shape)) if axis != dim]
            order.insert(1, dim)
            rows = call(mg, nodes[0], aten.permute.default, rows, order)
    _read_rows(mg, loop, nodes, rows)


def _repeat(mg: MaseGraph, loop: UnrolledLoop, nodes: Sequence[Node]) -> None:
    shape = common(nodes[0]).results["data_out_0"].shape
    with mg.fx_graph.inserting_after(nodes[0]):
        row = call(mg, nodes[0], aten.unsqueeze.default, nodes[0], 1)
    with mg.fx_graph.inserting_after(row):
        sizes = [-1, len(loop.steps), *shape[1:]]
        rows = call(mg, row, aten.expand.default, row, sizes)
    _read_rows(mg, loop, nodes, rows)


def _read_rows(mg: MaseGraph, loop: UnrolledLoop, nodes: Sequence[Node], rows: Node) -> None:
    for index, (node, step) in enumerate(zip(nodes, loop.steps, strict=True)):
        users = [item for item in step if node in item.all_input_nodes]
        with mg.fx_graph.inserting_before(users[0]):
            take = call(mg, node, _target(TAKE), rows, index)
        for user in users:
            user.replace_input_with(node, take)
