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

from mase_hw._aten import aten
from mase_hw._kinds import Argument
from mase_hw.graph._row_by_row import moved_before

_PICKS = (aten.select.int, aten.unbind.int, aten.squeeze.dim)


def keep_batch_first(module: GraphModule) -> None:
    """Take transpositions of the first two dimensions together, in place."""
    for node in list(module.graph.nodes):
        if _puts_before(node):
            _put_behind(module, node)
    while [node for node in list(module.graph.nodes) if _simplify(module, node)]:
        module.graph.eliminate_dead_code()


def _rank(node: object) -> int:
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
    if node.target is not aten.unsqueeze.default or not _rank(node.args[0]):
        return False
    source: Argument = node.args[0]
    given: Argument = node.args[1]
    return given % _rank(node) == 0 and isinstance(source.meta["val"].shape[0], torch.SymInt)


def _put_behind(module: GraphModule, node: Node) -> None:
    source: Argument = node.args[0]
    behind = _new(module, node, node.target, (source, 1))
    behind.meta["val"] = source.meta["val"].unsqueeze(1)
    node.replace_all_uses_with(_new(module, node, aten.transpose.int, (behind, 0, 1)))
    module.graph.erase_node(node)


def _swaps(node: object) -> bool:
    """Return whether a node changes the first two dimensions, and nothing else."""
    order = _dims(node)
    return order[:2] == [1, 0] and order[2:] == list(range(2, len(order)))


def _stacks(node: object) -> int | None:
    """Return the dimension that a stack makes, None for another node."""
    if not isinstance(node, Node) or node.target is not aten.stack.default:
        return None
    dim = node.args[1] if len(node.args) > 1 else 0
    assert isinstance(dim, int)
    return dim % _rank(node) if _rank(node) else None


def _simplify(module: GraphModule, node: Node) -> bool:
    if node.op != "call_function" or not node.args or not node.users:
        return False
    source: Argument = node.args[0]
    made: Node | None = None
    if _dims(node) and ((_swaps(node) and _swaps(source)) or _moves_batch(source)):
        made = _composed(module, node, source)
    elif _stacks(node) == 0 and all(map(_leads, source)):
        made = _stacked_behind(module, node)
    elif node.target in _PICKS and _rank(source):
        dim = _dim(node, 1)
        if _stacks(source) == dim:
            made = _picked(node, source)
        elif (
            dim == 0 and _swaps(source) and (node.target is not aten.squeeze.dim or _is_one(source))
        ):
            made = _new(module, node, node.target, (source.args[0], 1, *node.args[2:]))
        elif dim == 0 and node.target is not aten.squeeze.dim and _moves_batch(source):
            made = _picked_first(module, node, source.args[0], _dims(source))
    if made is None and not _dims(node):
        made = moved_before(module, node, _swaps)
    if made is None:
        return False
    node.replace_all_uses_with(made)
    module.graph.erase_node(node)
    return True


def _leads(node: Argument) -> bool:
    """Return whether a computed tensor has the batch first."""
    return _rank(node) > 0 and isinstance(node.meta["val"].shape[0], torch.SymInt)


def _dims(node: object) -> list[int]:
    """Return the order of a source's dimensions that a node gives; none for another node."""
    if not isinstance(node, Node) or node.op != "call_function" or not _rank(node):
        return []
    order = list(range(_rank(node)))
    if node.target is aten.transpose.int:
        first, second = _dim(node, 1), _dim(node, 2)
        order[first], order[second] = second, first
    elif node.target is aten.permute.default:
        given: Argument = node.args[1]
        order = [dim % len(order) for dim in given]
    else:
        return []
    return order


def _composed(module: GraphModule, node: Node, source: Node) -> Node:
    """Return one permutation in the place of two."""
    inner, outer = _dims(source), _dims(node)
    order = [inner[dim] for dim in outer]
    origin: Argument = source.args[0]
    if order == sorted(order):
        found: Node = origin
        return found
    return _new(module, node, aten.permute.default, (origin, order))


def _stacked_behind(module: GraphModule, node: Node) -> Node:
    """Return a stack that makes the first dimension as one that makes the second, transposed."""
    made = _new(module, node, aten.stack.default, (node.args[0], 1))
    made.meta["val"] = node.meta["val"].transpose(0, 1)
    return _new(module, node, aten.transpose.int, (made, 0, 1))


def _is_one(node: Node) -> bool:
    """Return whether the first dimension is known to be one."""
    size = node.meta["val"].shape[0]
    return isinstance(size, int) and size == 1


def _moves_batch(node: object) -> bool:
    """Return whether a node permutes dimensions, the first one too."""
    return _dims(node)[:1] not in ([], [0])


def _picked_first(module: GraphModule, node: Node, source: Argument, dims: list[int]) -> Node:
    """Return what a node takes of a permutation's first dimension, taken before the permutation.

    Queries, keys and values that one layer computes are taken apart so.
    """
    rest = [dim - (dim > dims[0]) for dim in dims[1:]]
    made = _new(module, node, node.target, (source, dims[0], *node.args[2:]))
    stays = rest == sorted(rest)
    if node.target is aten.select.int:
        if "val" in made.meta:
            made.meta["val"] = source.meta["val"].select(dims[0], node.args[2])
        return made if stays else _new(module, node, aten.permute.default, (made, rest))
    if "val" in made.meta:
        made.meta["val"] = source.meta["val"].unbind(dims[0])
    for user in [] if stays else list(node.users):
        with module.graph.inserting_after(user):
            moved = module.graph.call_function(aten.permute.default, (user, rest))
        moved.meta = dict(user.meta)
        user.replace_all_uses_with(moved)
        moved.args = (user, rest)
        if "val" in user.meta:
            user.meta["val"] = made.meta["val"][user.args[1]]
    return made


def _picked(node: Node, source: Node) -> Node | None:
    """Return the tensor of a stack that a node takes out of it."""
    members: Argument = source.args[0]
    if node.target is aten.select.int:
        index: Argument = node.args[2]
        found: Node = members[index]
        return found
    if node.target is aten.squeeze.dim and len(members) == 1:
        found = members[0]
        return found
    return None


def _new(module: GraphModule, node: Node, target: Any, args: tuple[Any, ...]) -> Node:
    with module.graph.inserting_before(node):
        made = module.graph.call_function(target, args)
    made.meta = dict(node.meta)
    return made
