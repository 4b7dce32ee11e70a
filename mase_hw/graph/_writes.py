"""Slices that are written to, as torch's functions for them have it, without the slices.

`x[:, 2:] = y` is `slice_scatter(x, copy(slice(x), y))`. What is written whole is what is written;
places of a dimension before the batch that are written one by one are a stack of them.
"""

from __future__ import annotations

from torch.fx import Node

from mase_hw._aten import aten
from mase_hw._kinds import Argument
from mase_hw.graph._rewriter import Rewriter, Rule, is_dynamic, known_shape, shape_of
from mase_hw.graph.calls import aten_arguments


def _copied(rewriter: Rewriter, node: Node) -> Node | None:
    return copied(rewriter, *node.args[:2]) if shape_of(node) else None


def copied(rewriter: Rewriter, base: Argument, value: Argument) -> Node:
    """Return what is copied, in the shape and the dtype of what it replaces."""
    dtype, call = base.meta["val"].dtype, rewriter.call
    if not isinstance(value, Node):
        sizes = [1 if is_dynamic(size) else size for size in shape_of(base)]
        return call(aten.full.default, sizes, value, dtype=dtype)
    if value.meta["val"].dtype != dtype:
        value = call(aten.to.dtype, value, dtype)
    if known_shape(value) == known_shape(base):
        return value
    return call(aten.expand.default, value, rewriter.sizes(base))


def _whole(rewriter: Rewriter, node: Node) -> Argument:
    """Return what is sliced, or written to a slice, where that is all of it."""
    given = aten_arguments(node)
    value = given.get("src", given["self"])
    is_whole = given["step"] == 1 and known_shape(value) == known_shape(given["self"])
    return value if is_whole and known_shape(node) == known_shape(value) else None


def _selected(rewriter: Rewriter, node: Node) -> Node | None:
    """Read a place past a write to a place."""
    source, dim, index = node.args
    if not isinstance(source, Node) or source.target is not aten.select_scatter.default:
        return None
    base, value, written, place = source.args
    rank, size = len(shape_of(source)), shape_of(source)[dim]
    if dim % rank != written % rank or is_dynamic(size):
        return None
    if index % size == place % size:
        return value
    return rewriter.call(aten.select.int, base, dim, index)


def _stacked(rewriter: Rewriter, node: Node) -> Node | None:
    """Write the last of assignments to `x[i]`, in front of the batch, as a stack of all of them."""
    size, *rest = shape_of(node)
    again = any(user.target is node.target and user.args[0] is node for user in node.users)
    if again or is_dynamic(size) or not any(map(is_dynamic, rest[:1])):
        return None
    base, values = node, dict[int, Node]()
    while base.target is node.target and base.args[2] == 0:
        values.setdefault(base.args[3] % size, base.args[1])
        base = base.args[0]
    rows = (
        values.get(place) or rewriter.call(aten.select.int, base, 0, place) for place in range(size)
    )
    return rewriter.call(aten.stack.default, list(rows), 0) if values else None


WRITES: dict[object, Rule] = {
    aten.copy.default: _copied,
    aten.fill.Tensor: _copied,
    aten.fill.Scalar: _copied,
    aten.slice.Tensor: _whole,
    aten.slice_scatter.default: _whole,
    aten.select.int: _selected,
    aten.select_scatter.default: _stacked,
}
