"""Readers of the results of steps, rewritten to read the steps one after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch.fx import Node

from mase_hw._aten import aten
from mase_hw.graph.calls import aten_arguments
from mase_hw.graph.encoding import decode_target
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import MaseMetadata, common, metadata, update

_CATS = ("mase.cat.default", "aten.cat.default")


def call(mg: MaseGraph, like: Node, target: Any, *args: Any) -> Node:
    """Insert a call where the graph inserts, with the layer and line of another node."""
    kind = target._schema.name.split("::")[1]
    node = mg.fx_graph.create_node("call_function", target, args, name=f"{like.name}_{kind}")
    node.meta["mase"] = MaseMetadata(metadata(like).module_path, metadata(like).source)
    return node


def rejoin(mg: MaseGraph, results: Sequence[Node], rows: Node, inside: set[Node]) -> None:
    """Let what reads results of steps read all of them one behind the other, in place.

    Args:
        mg: the graph.
        results: of the steps, in their order.
        rows: all of them, along dimension 1.
        inside: nodes that go on reading the results themselves.
    """
    for user in list(results[0].users):
        if user not in inside and user in results[0].users:
            _rejoin(mg, results, rows, user)
    for number, result in enumerate(results):
        outside = [user for user in result.users if user not in inside and user is not rows]
        if outside:
            with mg.fx_graph.inserting_after(rows):
                one = call(mg, result, aten.select.int, rows, 1, number)
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
        whole = call(mg, join.node, aten.flip.default, rows, [1]) if turned else rows
        whole = _moved(mg, whole, join, grown)
        joined, *leaves = [*join.leaves[:start], whole, *join.leaves[start + count :]]
        for leaf in leaves:
            cat = decode_target("call_function", _CATS[0])
            joined = call(mg, join.node, cat, [joined, leaf], join.dim)
            update(joined, common=common(join.node))
    join.node.replace_all_uses_with(joined)


def _moved(mg: MaseGraph, rows: Node, join: _Join, grown: bool) -> Node:
    if join.dim != 1:
        order = [0, *range(2, _rank(join.node) + (not grown))]
        order.insert(join.dim, 1)
        rows = call(mg, join.node, aten.permute.default, rows, order)
    if not grown:
        rows = call(mg, join.node, aten.flatten.using_ints, rows, join.dim, join.dim + 1)
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
