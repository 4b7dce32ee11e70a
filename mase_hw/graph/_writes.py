"""Slices that are written to, as torch's functions for them have it, without the slices.

`x[:, 2:] = y` is `slice_scatter(x, copy(slice(x), y))`. What is written whole is what is written;
places of a dimension before the batch that are written one by one are a stack of them.
"""

from __future__ import annotations

import operator

from torch.fx import Graph, Node

from mase_hw._aten import aten, overload
from mase_hw._kinds import Argument
from mase_hw.graph._rewriter import Rewriter, Rule, is_dynamic, known_shape, operands_of, shape_of
from mase_hw.graph.nodes import aten_arguments


def writes(node: Node) -> bool:
    """True if a call writes to one of its operands."""
    return bool(getattr(getattr(node.target, "_schema", None), "is_mutable", False))


def out_of_place(graph: Graph) -> None:
    """Call the functional twins of what writes to a value that has no other name, in place."""
    for node in graph.nodes:
        base = operands_of(node)[0] if writes(node) else None
        if not isinstance(base, Node) or not _has_one_name(base):
            continue
        later, passed = set[Node](), node
        while passed.op != "output":
            passed = passed.next
            later.add(passed)
        target = overload(node.target)
        name = target._schema.name.partition("::")[2].removesuffix("_")
        twin = getattr(getattr(aten, name, None), target._overloadname, None)
        if twin is not None and not any(map(_shares, {*base.users} - later - {node})):
            node.target = twin
            base.replace_all_uses_with(node, delete_user_cb=later.__contains__)


def _has_one_name(node: Node) -> bool:
    while node.op == "call_function" and _shares(node):
        if len(node.all_input_nodes) != 1 or len(node.all_input_nodes[0].users) != 1:
            return False
        (node,) = node.all_input_nodes
    return node.op == "call_function"


def _shares(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    if schema is None or "dropout" in schema.name:
        return node.op == "call_function"
    return any(item.alias_info is not None for item in schema.returns) and not schema.is_mutable


def _copied(rewriter: Rewriter, node: Node) -> Node | None:
    return copied(rewriter, *operands_of(node)[:2]) if shape_of(node) else None


def copied(rewriter: Rewriter, base: Argument, value: Argument) -> Node:
    """Return a copied value in the shape and dtype of the one that it replaces."""
    dtype, call = base.meta["val"].dtype, rewriter.call
    if not isinstance(value, Node):
        sizes = [1 if is_dynamic(size) else size for size in shape_of(base)]
        return call(aten.full.default, sizes, value, dtype=dtype)
    source = value
    if source.meta["val"].dtype != dtype:
        source = call(aten.to.dtype, source, dtype)
    if known_shape(source) == known_shape(base):
        return source
    return call(aten.expand.default, source, rewriter.sizes(base))


def _whole(rewriter: Rewriter, node: Node) -> Argument:
    """Take a slice, or a write to a slice, of a whole tensor as the value itself."""
    arguments = aten_arguments(node)
    value = arguments.get("src", arguments["self"])
    is_whole = arguments["step"] == 1 and known_shape(value) == known_shape(arguments["self"])
    return value if is_whole and known_shape(node) == known_shape(value) else None


def _selected(rewriter: Rewriter, node: Node) -> Node | None:
    first, dim, index = operands_of(node)
    source: Argument = first
    while isinstance(source, Node) and source.target is aten.select_scatter.default:
        base, value, written, place = operands_of(source)
        size, rank = shape_of(source)[dim], len(shape_of(source))
        if dim % rank != written % rank or is_dynamic(size):
            break
        if index % size == place % size:
            result: Node = value
            return result
        source = base
    return (
        None if source is operands_of(node)[0] else rewriter.call(node.target, source, dim, index)
    )


def _stacked(rewriter: Rewriter, node: Node) -> Node | None:
    """Write the last of assignments to `x[i]`, in front of the batch, as a stack of all of them."""
    size, *rest = shape_of(node)
    again = any(user.target is node.target and operands_of(user)[0] is node for user in node.users)
    if again or is_dynamic(size) or not any(map(is_dynamic, rest[:1])):
        return None
    base, values = node, dict[int, Node]()
    while base.target is node.target and operands_of(base)[2] == 0:
        values.setdefault(operands_of(base)[3] % size, operands_of(base)[1])
        base = operands_of(base)[0]
    rows = (
        values.get(place) or rewriter.call(aten.select.int, base, 0, place) for place in range(size)
    )
    return rewriter.call(aten.stack.default, list(rows), 0) if values else None


def _expanded(rewriter: Rewriter, node: Node) -> Node:
    return rewriter.call(aten.expand.default, *operands_of(node))


def _member(rewriter: Rewriter, node: Node) -> Argument:
    """Take one of several results by itself, where it can be."""
    source, number = operands_of(node)
    if source.target is aten._native_batch_norm_legit_no_training.default and number == 0:
        *tensors, momentum, eps = operands_of(source)
        return rewriter.call(aten.batch_norm.default, *tensors, False, momentum, eps, False)
    if source.target is not aten.broadcast_tensors.default:
        return None
    value = operands_of(source)[0][number]
    if known_shape(value) == known_shape(node):
        return value
    whole = (item for item in operands_of(source)[0] if known_shape(item) == known_shape(node))
    like = next(whole, None)
    return like and rewriter.call(aten.expand.default, value, rewriter.sizes(like))


WRITES: dict[object, Rule] = {
    aten.copy.default: _copied,
    aten.fill.Tensor: _copied,
    aten.fill.Scalar: _copied,
    aten.broadcast_to.default: _expanded,
    operator.getitem: _member,
    aten.slice.Tensor: _whole,
    aten.slice_scatter.default: _whole,
    aten.select.int: _selected,
    aten.select_scatter.default: _stacked,
}
