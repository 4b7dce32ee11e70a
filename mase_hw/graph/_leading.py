"""Simplification where the batch dimension leaves the first place and returns to it.

Layers that take time before the batch stand between two transpositions, and the last states of
recurrent layers are stacked before it. What is computed does not change; in the order in which the
batch stays first, inferences follow each other. Layers between two transpositions that do not care
for the order are moved before the first one, so that both meet. A dimension of one that is put
before the batch is put behind it, and transposed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from mase_hw.graph._row_by_row import moved_before

_aten = torch.ops.aten
_PICKS = (_aten.select.int, _aten.unbind.int, _aten.squeeze.dim)


def keep_batch_first(module: GraphModule) -> None:
    """Take transpositions of the first two dimensions together, in place."""
    for node in list(module.graph.nodes):
        if _puts_before(node):
            _put_behind(module, node)
    while [node for node in list(module.graph.nodes) if _simplify(module, node)]:
        module.graph.eliminate_dead_code()


def _rank(node: Any) -> int:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return value.dim() if isinstance(value, torch.Tensor) else 0


def _dim(node: Node, position: int) -> int:
    """Return an argument that is a dimension of a node's first operand, from the front."""
    given = node.args[position] if len(node.args) > position else 0
    rank = _rank(node.args[0])
    assert isinstance(given, int)
    return given % rank if rank else given


def _puts_before(node: Node) -> bool:
    """Return whether a node makes a dimension of one before the batch."""
    if node.target is not _aten.unsqueeze.default or not _rank(node.args[0]):
        return False
    source: Any = node.args[0]
    given: Any = node.args[1]
    return given % _rank(node) == 0 and isinstance(source.meta["val"].shape[0], torch.SymInt)


def _put_behind(module: GraphModule, node: Node) -> None:
    source: Any = node.args[0]
    behind = _new(module, node, node.target, (source, 1))
    behind.meta["val"] = source.meta["val"].unsqueeze(1)
    node.replace_all_uses_with(_new(module, node, _aten.transpose.int, (behind, 0, 1)))
    module.graph.erase_node(node)


def _swaps(node: Any) -> bool:
    """Return whether a node changes the first two dimensions, and nothing else."""
    if not isinstance(node, Node) or node.op != "call_function" or _rank(node) < 2:
        return False
    if node.target is _aten.transpose.int:
        return {_dim(node, 1), _dim(node, 2)} == {0, 1}
    if node.target is _aten.permute.default:
        rank = _rank(node)
        dims: Any = node.args[1]
        return [dim % rank for dim in dims] == [1, 0, *range(2, rank)]
    return False


def _stacks(node: Any) -> int | None:
    """Return the dimension that a stack makes, None for another node."""
    if not isinstance(node, Node) or node.target is not _aten.stack.default:
        return None
    dim = node.args[1] if len(node.args) > 1 else 0
    assert isinstance(dim, int)
    return dim % _rank(node) if _rank(node) else None


def _simplify(module: GraphModule, node: Node) -> bool:
    if node.op != "call_function" or not node.args or not node.users:
        return False
    source: Any = node.args[0]
    made: Node | None = None
    if _swaps(node):
        if _swaps(source):
            made = source.args[0]
        elif _stacks(source) in (0, 1):
            dim = 1 - (_stacks(source) or 0)
            made = _new(module, node, _aten.stack.default, (source.args[0], dim))
    elif node.target in _PICKS and _rank(source) and _dim(node, 1) == 0:
        if _swaps(source) and (node.target is not _aten.squeeze.dim or _is_one(source)):
            made = _new(module, node, node.target, (source.args[0], 1, *node.args[2:]))
        elif _stacks(source) == 0:
            made = _picked(node, source)
        elif node.target is not _aten.squeeze.dim and (dims := _moves_batch(source)):
            made = _picked_first(module, node, source.args[0], dims)
    if made is None and not _swaps(node):
        made = moved_before(module, node, _swaps)
    if made is None:
        return False
    node.replace_all_uses_with(made)
    module.graph.erase_node(node)
    return True


def _is_one(node: Node) -> bool:
    """Return whether the first dimension is known to be one."""
    size = node.meta["val"].shape[0]
    return isinstance(size, int) and size == 1


def _moves_batch(node: Any) -> list[int]:
    """Return the dimensions of a permutation that does not begin with the first; else none."""
    if not isinstance(node, Node) or node.target is not _aten.permute.default:
        return []
    given: Any = node.args[1]
    dims = [dim % _rank(node) for dim in given]
    return dims if dims[0] else []


def _picked_first(module: GraphModule, node: Node, source: Any, dims: list[int]) -> Node:
    """Return what a node takes of a permutation's first dimension, taken before the permutation.

    Queries, keys and values that one layer computes are taken apart so.
    """
    rest = [dim - (dim > dims[0]) for dim in dims[1:]]
    made = _new(module, node, node.target, (source, dims[0], *node.args[2:]))
    stays = rest == sorted(rest)
    if node.target is _aten.select.int:
        if "val" in made.meta:
            made.meta["val"] = source.meta["val"].select(dims[0], node.args[2])
        return made if stays else _new(module, node, _aten.permute.default, (made, rest))
    if "val" in made.meta:
        made.meta["val"] = source.meta["val"].unbind(dims[0])
    for user in [] if stays else list(node.users):
        with module.graph.inserting_after(user):
            moved = module.graph.call_function(_aten.permute.default, (user, rest))
        moved.meta = dict(user.meta)
        user.replace_all_uses_with(moved)
        moved.args = (user, rest)
        if "val" in user.meta:
            user.meta["val"] = made.meta["val"][user.args[1]]
    return made


def _picked(node: Node, source: Node) -> Node | None:
    """Return the tensor of a stack that a node takes out of it."""
    members: Any = source.args[0]
    if node.target is _aten.select.int:
        index: Any = node.args[2]
        found: Node = members[index]
        return found
    if node.target is _aten.squeeze.dim and len(members) == 1:
        found = members[0]
        return found
    return None


def _new(module: GraphModule, node: Node, target: Any, args: tuple[Any, ...]) -> Node:
    with module.graph.inserting_before(node):
        made = module.graph.call_function(target, args)
    made.meta = dict(node.meta)
    return made
