"""Closed loops: steps between boundaries, each with its part of sequences and a row of results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch.fx import Node

from mase_hw._aten import aten
from mase_hw.graph.encoding import decode_target
from mase_hw.graph.loops import COLLECT, ROLE, TAKE
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import MaseMetadata
from mase_hw.graph.nodes import aten_arguments, common, metadata, update
from mase_hw.graph.unrolled_loops import UnrolledLoop, part_of
from mase_hw.ops import operator_for_role

_CATS = ("mase.cat.default", "aten.cat.default")


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
        repeat_rows(mg, loop.steps, nodes)
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
                rows = _call(mg, nodes[-1], _target(COLLECT), ends, number)
            _rejoin_all(mg, ends, rows, inside)
    mg.fx_graph.eliminate_dead_code()
    return boundaries


def _boundary(
    mg: MaseGraph, node: Node, place: tuple[int, int, int], users: set[Node] | None
) -> Node:
    readers = [user for user in node.users if users is None or user in users]
    with mg.fx_graph.inserting_after(node):
        boundary = _call(mg, node, _target(ROLE), node, *place)
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
            rows = _call(mg, nodes[0], aten.slice.Tensor, rows, dim, begin, end)
        if last < first:
            rows = _call(mg, nodes[0], aten.flip.default, rows, [dim])
        if dim != 1:
            order = [axis for axis in range(len(shape)) if axis != dim]
            order.insert(1, dim)
            rows = _call(mg, nodes[0], aten.permute.default, rows, order)
    _read_rows(mg, loop.steps, nodes, rows)


def repeat_rows(mg: MaseGraph, steps: Sequence[Sequence[Node]], nodes: Sequence[Node]) -> None:
    """Let steps, in place, take what all of them read as their rows of it, repeated.

    Args:
        mg: the graph.
        steps: the nodes of each step.
        nodes: what each reads, once outside the loop.
    """
    shape = common(nodes[0]).results["data_out_0"].shape
    with mg.fx_graph.inserting_after(nodes[0]):
        row = _call(mg, nodes[0], aten.unsqueeze.default, nodes[0], 1)
    with mg.fx_graph.inserting_after(row):
        sizes = [-1, len(steps), *shape[1:]]
        rows = _call(mg, row, aten.expand.default, row, sizes)
    _read_rows(mg, steps, nodes, rows)


def _read_rows(
    mg: MaseGraph, steps: Sequence[Sequence[Node]], nodes: Sequence[Node], rows: Node
) -> None:
    for index, (node, step) in enumerate(zip(nodes, steps, strict=True)):
        users = [item for item in step if node in item.all_input_nodes]
        with mg.fx_graph.inserting_before(users[0]):
            take = _call(mg, node, _target(TAKE), rows, index)
        for user in users:
            user.replace_input_with(node, take)


def _call(mg: MaseGraph, like: Node, target: Any, *args: Any) -> Node:
    kind = target._schema.name.split("::")[1]
    node = mg.fx_graph.create_node("call_function", target, args, name=f"{like.name}_{kind}")
    node.meta["mase"] = MaseMetadata(metadata(like).module_path, metadata(like).source)
    return node


def _rejoin_all(mg: MaseGraph, results: Sequence[Node], rows: Node, inside: set[Node]) -> None:
    """Let nodes outside of a loop read the results of all steps, along dimension 1 of `rows`."""
    for user in list(results[0].users):
        if user not in inside and user in results[0].users:
            _rejoin(mg, results, rows, user)
    for number, result in enumerate(results):
        outside = [user for user in result.users if user not in inside and user is not rows]
        if outside:
            with mg.fx_graph.inserting_after(rows):
                one = _call(mg, result, aten.select.int, rows, 1, number)
            for user in outside:
                user.replace_input_with(result, one)


@dataclass(frozen=True)
class _Join:
    """A node that concatenates leaves along a dimension, maybe by several calls."""

    node: Node
    dim: int
    leaves: tuple[Node, ...]


def _rejoin(mg: MaseGraph, results: Sequence[Node], rows: Node, user: Node) -> None:
    """Replace a concatenation of results, if a user of the first one leads to such."""
    grown = user.target is aten.unsqueeze.default
    join = _join(user if grown else results[0])
    if join is None:
        return
    wanted = [_leaf(result, user) for result in results] if grown else list(results)
    if None in wanted or wanted[0] not in join.leaves:
        return
    place, count = join.leaves.index(wanted[0]), len(wanted)
    turned = list(join.leaves[max(0, place - count + 1) :][:count][::-1]) == wanted
    if list(join.leaves[place : place + count]) != wanted and not turned:
        return
    start = place - count + 1 if turned else place
    with mg.fx_graph.inserting_before(join.node):
        whole = _call(mg, join.node, aten.flip.default, rows, [1]) if turned else rows
        whole = _moved(mg, whole, join, grown)
        leaves = [*join.leaves[:start], whole, *join.leaves[start + count :]]
        joined = leaves[0]
        for leaf in leaves[1:]:
            cat = decode_target("call_function", _CATS[0])
            joined = _call(mg, join.node, cat, [joined, leaf], join.dim)
            update(joined, common=common(join.node))
    join.node.replace_all_uses_with(joined)


def _moved(mg: MaseGraph, rows: Node, join: _Join, grown: bool) -> Node:
    if join.dim != 1:
        order = [0, *range(2, _rank(join.node) + (not grown))]
        order.insert(join.dim, 1)
        rows = _call(mg, join.node, aten.permute.default, rows, order)
    if not grown:
        rows = _call(mg, join.node, aten.flatten.using_ints, rows, join.dim, join.dim + 1)
    return rows


def _leaf(result: Node, like: Node) -> Node | None:
    dim = aten_arguments(like)["dim"]
    users = (user for user in result.users if user.target is like.target)
    return next((user for user in users if aten_arguments(user)["dim"] == dim), None)


def _join(leaf: Node) -> _Join | None:
    node, dim = leaf, None
    while True:
        users = [user for user in node.users if _is_cat(user)]
        along = {aten_arguments(user)["dim"] % _rank(user) for user in users}
        alone = len(users) == 1 and (node is leaf or len(node.users) == 1)
        if not alone or (dim is not None and along != {dim}):
            break
        (dim,), (node,) = along, users
    return None if dim is None or dim == 0 else _Join(node, dim, tuple(_leaves(node, dim)))


def _leaves(node: Node, dim: int) -> list[Node]:
    leaves: list[Node] = []
    for item in aten_arguments(node)["tensors"]:
        inner = _is_cat(item) and len(item.users) == 1
        along = inner and aten_arguments(item)["dim"] % _rank(node) == dim
        leaves += _leaves(item, dim) if along else [item]
    return leaves


def _is_cat(node: Node) -> bool:
    return str(node.target) in _CATS


def _rank(node: Node) -> int:
    return len(common(node).results["data_out_0"].shape)
