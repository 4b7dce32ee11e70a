"""Constants made for every row of a batch, which fix the batch although rows are independent.

Masks and positions of transformers are computed for a whole batch from nothing but its size. A
constant that is repeated for every row is made once, and broadcasts, or, where a reshape merges
rows with its own dimensions, is repeated for the rows of an input. An index that counts rows
becomes a slice of all of them, numbers of what is sorted are counted, and so are rows that a result
is divided by.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from mase_hw._aten import aten, overload
from mase_hw._kinds import Argument
from mase_hw.graph.calls import aten_arguments
from mase_hw.ops import operators, torch_target

REPETITIONS = (aten.expand.default, aten.repeat.default)
# Constants in the shape of what is computed, and their values.
_LIKES: dict[object, int | None] = {
    aten.zeros_like.default: 0,
    aten.ones_like.default: 1,
    aten.full_like.default: None,
}
_JOINS = (aten.cat.default, aten.concat.default)
_COUNTERS = (aten.arange.default, aten.arange.start, aten.arange.start_step)
_INDEX_PUTS = (aten.index_put.default, aten.index_put_.default)
# What takes tensors of as many rows; the first ones repeat a tensor of one in software alone.
_BROADCASTING = (aten.scaled_dot_product_attention.default,)
_ROW_BY_ROW = (
    *_BROADCASTING,
    aten.baddbmm.default,
    aten.gather.default,
    aten.scatter.src,
    aten.scatter.value,
    aten.scatter_add.default,
    aten.scatter_reduce.two,
    aten.slice_scatter.default,
    aten.select_scatter.default,
    aten.copy.default,
)
FACTORIES = (aten.zeros.default, aten.ones.default, aten.full.default)
# What takes rows that a repetition has put behind each other apart again.
_SPLITS = (aten.unflatten.int, aten.view.default, aten.reshape.default)
_ORIGIN = ("nn_module_stack", "stack_trace", "val")
# What a count of rows passes through without change.
_CARRIERS = (
    aten.unsqueeze.default,
    aten.slice.Tensor,
    aten.alias.default,
    aten.clone.default,
    aten.contiguous.default,
    aten.view.default,
    aten.reshape.default,
    aten.to.dtype,
    aten.to.device,
    aten.to.dtype_layout,
    aten.lift_fresh_copy.default,
)


def free_batch(module: GraphModule) -> None:
    """Rewrite, in place, what a captured graph computes for every row of a batch alike."""
    operators()  # registers our own torch operators
    constants: set[Node] = set()
    for node in list(module.graph.nodes):
        if node.op == "call_function":
            if node.target in REPETITIONS and node.args[0] in constants:
                _split_once(module, node)
                node = _repeat_once(node) or _repeat_like(module, node) or node
            elif node.target in _LIKES:
                node = _fill_once(module, node) or node
            elif node.target in _INDEX_PUTS:
                _count_indices(module, node)
                node = _put_rows(module, node)
            elif node.target is aten.index.Tensor:
                node = _index_rows(module, node)
            elif node.target is aten.gather.default:
                node = _look_up_shared(module, node, constants)
            if node.target is aten.bmm.default:
                # Where one row of a constant is left.
                node.target = aten.matmul.default
            if node.target in _ROW_BY_ROW:
                _give_rows(module, node, constants)
            _count_rows(module, node)
        inputs = node.all_input_nodes
        if node.op == "get_attr" or (
            node.op == "call_function"
            and (node.target in FACTORIES or all(item in constants for item in inputs))
        ):
            constants.add(node)


def _shape(node: object) -> tuple[Argument, ...]:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return tuple(value.shape) if isinstance(value, Tensor) else ()


def _is_symbolic(size: object) -> bool:
    value = size.meta.get("val") if isinstance(size, Node) else size
    return isinstance(value, torch.SymInt) and not value.node.expr.is_number


def _repeat_once(node: Node) -> Node | None:
    """Leave a size of one where a constant is repeated for every row; None where that is not all.

    What is merged with the batch afterwards does not broadcast any more.
    """
    sizes: Argument = node.args[1]
    if not any(_is_symbolic(size) for size in sizes):
        return None
    source = _shape(node.args[0])
    own = [1] * (len(sizes) - len(source)) + list(source)
    if any(_is_symbolic(size) and old != 1 for size, old in zip(sizes, own, strict=True)):
        return None
    if _is_merged(node):
        return None
    node.update_arg(1, [1 if _is_symbolic(size) else size for size in sizes])
    join_once(node)
    return node


def join_once(node: Node) -> None:
    """Join one row of a constant, where it is joined, with every row of what it meets."""
    for user in node.users:
        if user.target in _JOINS:
            user.target = torch_target("mase.cat.default")
        elif user.target is aten.stack.default:
            user.target = torch_target("mase.stack.default")


def _fill_once(module: GraphModule, node: Node) -> Node | None:
    """Make one row of a constant in the shape of what is computed; None where that is not all."""
    shape, value = _shape(node), node.meta.get("val")
    if not isinstance(value, Tensor) or any(_is_symbolic(size) for size in shape[1:]):
        return None
    if shape and _is_symbolic(shape[0]):
        if _is_merged(node):
            return None
        shape = (1, *shape[1:])
    filling = node.args[1] if node.target is aten.full_like.default else _LIKES[node.target]
    with module.graph.inserting_before(node):
        once = module.graph.call_function(
            aten.full.default,
            ([int(size) for size in shape], filling),
            {"dtype": value.dtype},
        )
    once.meta["val"] = value
    join_once(node)
    return _replace(module, node, once)


def _split_once(module: GraphModule, node: Node) -> None:
    """Make one row of what is repeated for every row, and taken apart again.

    A mask for each head of every row is spelled so.
    """
    once: Argument = node.args[0]
    own = _shape(once)
    repeats: Argument = node.args[1]
    if node.target is not aten.repeat.default or len(repeats) != len(own):
        return
    if not _is_symbolic(repeats[0]) or any(size != 1 for size in repeats[1:]):
        return
    for user in list(node.users):
        shape = _shape(user)
        if user.target not in _SPLITS or len(shape) != len(own) + 1 or _is_merged(user):
            continue
        if not _is_symbolic(shape[0]) or shape[1:] != own:
            continue
        with module.graph.inserting_before(user):
            made = module.graph.call_function(aten.unsqueeze.default, (once, 0))
        made.meta["val"] = user.meta["val"]
        join_once(user)
        _replace(module, user, made)
    if not node.users:
        # Nothing reads the rows.
        node.update_arg(1, [1] * len(repeats))


def _is_merged(node: Node) -> bool:
    """Return whether what is computed of a constant alone reduces the batch, or merges it."""
    batch = [size.node.expr for size in _shape(node) if _is_symbolic(size)]
    waiting, seen = list(node.users), {node}
    while waiting:
        user = waiting.pop()
        others = [item for item in user.all_input_nodes if item not in seen]
        if user in seen or any(_is_symbolic(size) for item in others for size in _shape(item)):
            continue
        seen.add(user)
        sizes = [size.node.expr for size in _shape(user) if _is_symbolic(size)]
        counted = isinstance(user.meta.get("val"), Tensor) and not sizes
        if counted or any(size not in batch for size in sizes):
            return True
        waiting += user.users
    return False


def _repeat_like(module: GraphModule, node: Node) -> Node | None:
    """Repeat a constant for the rows of an input; None where it is repeated for no input's rows."""
    sizes: Argument = node.args[1]
    if not sizes or not _is_symbolic(sizes[0]) or any(_is_symbolic(size) for size in sizes[1:]):
        return None
    rows = sizes[0].meta["val"] if isinstance(sizes[0], Node) else sizes[0]
    given = [item for item in module.graph.nodes if item.op == "placeholder"]
    found = [item for item in given if _counts(item, rows)]
    if not found:
        return None
    once, repeated_shape = _shape(node.args[0]), _shape(node)
    leading = int(once[0]) if len(once) == len(repeated_shape) else 1
    with module.graph.inserting_before(node):
        first = module.graph.call_function(overload(node.target), (node.args[0], [1, *sizes[1:]]))
        rest = [int(size) for size in repeated_shape[1:]]
        first.meta = {**node.meta, "val": node.meta["val"].new_empty(leading, *rest)}
        like = torch_target("mase.rows_like.default")
        repeated = module.graph.call_function(like, (first, found[0]))
    return _replace(module, node, repeated)


def _give_rows(module: GraphModule, node: Node, constants: set[Node]) -> None:
    """Repeat constants, of which one row is left, for the rows of what they are taken with."""
    given = aten_arguments(node).items()
    operands = [item for name, item in given if isinstance(item, Node) and name != "attn_mask"]
    streams = [item for item in operands if item not in constants and _shape(item)]
    for item in operands:
        once = _shape(item)[:1] == (1,) and node.target in _BROADCASTING
        if (
            streams
            and item in constants
            and _shape(item)
            and (once or _is_symbolic(_shape(item)[0]))
        ):
            with module.graph.inserting_before(node):
                target: Any = torch_target("mase.rows_like.default")
                rows = module.graph.call_function(target, (item, streams[0]))
            rows.meta = {**node.meta, "val": item.meta["val"]}
            node.replace_input_with(item, rows)


def _count_rows(module: GraphModule, node: Node) -> None:
    """Count the rows of an input where their number is computed with, as in a mean over them."""
    known: Argument = getattr(node.target, "_schema", None)
    given: Argument = node.args if known is not None else ()
    for place, value in enumerate(given):
        if not _is_symbolic(value) or not isinstance(known.arguments[place].type, torch.TensorType):
            continue
        inputs = [item for item in module.graph.nodes if item.op == "placeholder"]
        counted = [item for item in inputs if _counts(item, value.meta["val"])]
        if not counted:
            continue
        with module.graph.inserting_before(node):
            made = counted[0]
            for _ in _shape(made)[1:]:
                made = module.graph.call_function(aten.select.int, (made, 1, 0))
            made = module.graph.call_function(aten.ones_like.default, (made,))
            made = module.graph.call_function(aten.sum.default, (made,))
        node.update_arg(place, made)


def _counts(node: Node, rows: torch.SymInt) -> bool:
    """Return whether an input has a number of rows."""
    shape = _shape(node)
    return bool(shape) and _is_symbolic(shape[0]) and shape[0].node.expr == rows.node.expr


def _count_indices(module: GraphModule, node: Node) -> None:
    """Number the elements of an index by counting them, as in the inverse of a permutation.

    A count up to the number of all rows' elements depends on the batch.
    """
    indices: Argument = node.args[1]
    values = node.args[2]
    if not isinstance(indices, list | tuple) or len(indices) != 1 or not isinstance(values, Node):
        return
    (index,) = indices
    shape = _shape(values)
    is_count = values.target is aten.arange.default and len(shape) == 1
    if not is_count or not _is_symbolic(shape[0]) or _shape(index) != shape:
        return
    with module.graph.inserting_before(node):
        ones = module.graph.call_function(aten.ones_like.default, (index,))
        count = module.graph.call_function(aten.cumsum.default, (ones, 0))
        found = module.graph.call_function(aten.sub.Tensor, (count, 1))
    for item in (ones, count, found):
        item.meta |= {key: values.meta[key] for key in _ORIGIN if key in values.meta}
    node.replace_input_with(values, found)


def _counts_rows(node: Argument) -> bool:
    """Return whether a tensor is 0, 1, ... along its first dimension, for every row of a batch."""
    shape = _shape(node)
    if not shape or not _is_symbolic(shape[0]) or any(size != 1 for size in shape[1:]):
        return False
    while node.target in _CARRIERS and node.all_input_nodes:
        source = node.args[0]
        if _shape(source)[:1] != shape[:1]:
            return False
        node = source
    starts = node.args[:-1] if node.target in _COUNTERS else (None,)
    if node.target is aten.arange.start_step:
        starts = (node.args[0], int(node.args[2] != 1)) if len(node.args) > 2 else node.args[:1]
    return all(start == 0 for start in starts)


def _index_rows(module: GraphModule, node: Node) -> Node:
    """Write `x[rows, i, ...]` as `x[:, i, ...]`, or as a gather where each row has its own `i`."""
    source, indices = node.args[0], list(node.args[1])  # type: ignore[arg-type]
    if not _counts_rows(indices[0]):
        return node
    rank = len(_shape(indices[0]))
    with module.graph.inserting_before(node):
        if _is_whole(source, indices):
            return _replace(module, node, module.graph.call_function(aten.alias.default, (source,)))
        own = [index for index in indices[1:] if _shape(index) == _shape(indices[0])]
        if rank == 1 and len(indices) == 2 and own and isinstance(source, Node):
            replacement = _pick(module, source, own[0])
        else:
            others = _shared_by_rows(module, indices)
            if others is None:
                return node
            replacement = module.graph.call_function(aten.index.Tensor, (source, others))
    return _replace(module, node, replacement)


def _put_rows(module: GraphModule, node: Node) -> Node:
    """Write what is assigned to `x[rows, i, ...]` as assigned to `x[:, i, ...]`."""
    source, given, values, *rest = node.args
    indices = list(given)  # type: ignore[arg-type]
    if not _counts_rows(indices[0]):
        return node
    call = module.graph.call_function
    with module.graph.inserting_before(node):
        if _is_whole(source, indices) and not any(rest):
            copy = aten.copy if node.target is aten.index_put.default else aten.copy_
            return _replace(module, node, call(copy.default, (source, values)))
        others = _shared_by_rows(module, indices)
        if others is None:
            return node
        made = call(overload(node.target), (source, others, values, *rest))
    return _replace(module, node, made)


def _is_whole(source: object, indices: list[Argument]) -> bool:
    """Return whether indices, of which the first one counts rows, name all of a tensor in order."""
    return len(indices) == 1 and _shape(indices[0]) == _shape(source)[:1]


def _shared_by_rows(module: GraphModule, indices: list[Argument]) -> list[Node | None] | None:
    """Return indices of all rows, from one that counts them; None where a row has its own."""
    if len(indices) == 1:
        return None
    shared = [_without_rows(module, index, len(_shape(indices[0]))) for index in indices[1:]]
    return None if None in shared else [None, *shared]


def _without_rows(module: GraphModule, index: object, rank: int) -> Node | None:
    """Return an index that is the same for every row without its first dimension."""
    shape = _shape(index)
    if not isinstance(index, Node) or len(shape) > rank:
        return None
    if len(shape) == rank:
        return module.graph.call_function(aten.select.int, (index, 0, 0)) if shape[0] == 1 else None
    found = index
    for _ in range(rank - 1 - len(shape)):
        found = module.graph.call_function(aten.unsqueeze.default, (found, 0))
    return found


def _pick(module: GraphModule, source: Node, index: Node) -> Node:
    """Return the element of every row of `source` that an index per row names."""
    rest = [int(size) for size in _shape(source)[2:]]
    call, length = module.graph.call_function, int(_shape(source)[1])
    if not _counts_from_front(index):
        behind = call(aten.lt.Scalar, (index, 0))
        index = call(aten.where.self, (behind, call(aten.add.Tensor, (index, length)), index))
    ones = [1] * len(rest)
    spread = call(aten.reshape.default, (index, [-1, 1, *ones]))
    if not source.meta["val"].is_floating_point():
        if rest:
            spread = call(aten.expand.default, (spread, [-1, 1, *rest]))
        return call(aten.squeeze.dim, (call(aten.gather.default, (source, 1, spread)), 1))
    places = call(aten.reshape.default, (call(aten.arange.default, (length,)), [length, *ones]))
    chosen = call(aten.where.ScalarOther, (call(aten.eq.Tensor, (spread, places)), source, 0.0))
    return call(aten.sum.dim_IntList, (chosen, [1]))


def _counts_from_front(index: Node) -> bool:
    """Return whether an index is that of an element of a row, which is never below zero."""
    while index.target in _CARRIERS and index.all_input_nodes:
        index = index.all_input_nodes[0]
    return index.target in (aten.argmax.default, aten.argmin.default)


def _look_up_shared(module: GraphModule, node: Node, constants: set[Node]) -> Node:
    """Write a gather from one row for all as a look-up in that row."""
    source, dim, index = node.args[:3]
    shape = _shape(source)
    if (
        source not in constants
        or index in constants
        or len(shape) != 2
        or dim not in (1, -1)
        or not _is_symbolic(shape[0])
    ):
        return node
    with module.graph.inserting_before(node):
        row = module.graph.call_function(aten.select.int, (source, 0, 0))
        found = module.graph.call_function(aten.index.Tensor, (row, [index]))
    row.meta["val"] = source.meta["val"][0]  # type: ignore[union-attr]
    return _replace(module, node, found)


def _replace(module: GraphModule, node: Node, replacement: Node) -> Node:
    for key in _ORIGIN:
        if key in node.meta:
            replacement.meta[key] = node.meta[key]
    node.replace_all_uses_with(replacement)
    module.graph.erase_node(node)
    return replacement
