"""Constants made for every row of a batch, which fix the batch although rows are independent.

Masks and positions of transformers, and first states, are computed for a whole batch from nothing
but its size. Whether a constant is the same for every row is seen by computing it for batches of
one and of three. One row of it then broadcasts, or is repeated for the rows of an input where a
call does not broadcast. An index that counts rows becomes a slice of all of them, numbers of what
is sorted are counted, and so are rows that a result is divided by.
"""

from __future__ import annotations

import operator
from math import prod

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_aggregate, map_arg

from mase_hw._aten import aten, overload
from mase_hw._kinds import Argument
from mase_hw.graph._rewriter import (
    Constants,
    Rewriter,
    Rule,
    all_alike,
    is_dynamic,
    known_shape,
    operands_of,
    shape_of,
    shaped_like,
    size_of,
)
from mase_hw.graph._writes import copied
from mase_hw.graph.nodes import aten_arguments
from mase_hw.graph.rebuild import ancestors
from mase_hw.graph.rounded import is_rounding
from mase_hw.ops import operators, torch_target

_ROWS = 3
# Memory that nothing was written to holds anything: zeros, too.
_UNWRITTEN: dict[object, Argument] = {
    aten.empty.memory_format: aten.zeros.default,
    aten.new_empty.default: aten.new_zeros.default,
    aten.empty_like.default: aten.zeros_like.default,
}
# What is joined may be one row for all.
_JOINS = {
    name: f"mase.{kind}.default"
    for kind in ("cat", "stack")
    for name in (f"aten.{kind}.default", f"mase.{kind}.default")
}
# What broadcasts in software alone, but for this argument.
_ROW_BY_ROW = {aten.scaled_dot_product_attention.default: "attn_mask"}


def free_batch(module: GraphModule) -> None:
    """Rewrite, in place, what a captured graph computes for every row of a batch alike."""
    operators()  # registers our own torch operators
    rewriter = Rewriter(module)
    rewriter.run(_RULES)
    for node in list(module.graph.nodes):
        with rewriter.before(node):
            _count_rows(rewriter, node)
    _OneRow(rewriter).share()


class _OneRow:
    """Puts one row of constants, or as many as one inference has, in the place of all rows."""

    def __init__(self, rewriter: Rewriter) -> None:
        self._rewriter, self._constants = rewriter, Constants(rewriter.module)
        self._single: dict[Node, Node] = {}
        inputs = (item for item in rewriter.graph.nodes if item.op == "placeholder")
        # The first one with a row for each inference.
        self._input = next(
            (item for item in inputs if any(map(is_dynamic, shape_of(item)[:1]))), None
        )

    def share(self) -> None:
        """Share the rows of every constant that something computed takes."""
        for node in list(self._rewriter.graph.nodes):
            users = [user for user in node.users if user not in self._constants]
            is_call = node.op == "call_function" and isinstance(node.meta.get("val"), Tensor)
            if users and is_call and node in self._constants and self._counts_rows(node):
                one, many = (self._constants.value(node, rows) for rows in (1, _ROWS))
                if one is not None and many is not None:
                    self._share(node, users, one, many)
        for node in list(self._rewriter.graph.nodes) if self._input else ():
            self._repeat_single(node)

    def _repeat_single(self, node: Node) -> None:
        """Repeat a constant of one row for a call that broadcasts in software alone."""
        target: Argument = node.target
        mask = _ROW_BY_ROW.get(target)
        operands = aten_arguments(node).items() if mask else ()
        for name, item in operands:
            if name != mask and item in self._constants and shape_of(item)[:1] == (1,):
                with self._rewriter.before(node):
                    node.replace_input_with(
                        item, self._rewriter.call(_rows_like(), item, self._like(node))
                    )

    def _counts_rows(self, node: Node) -> bool:
        """True if the size of the batch, or of what is computed, decides a constant."""
        return any(
            item not in self._constants or any(map(is_dynamic, (item, *shape_of(item))))
            for item in ancestors(node)
        )

    def _share(self, node: Node, users: list[Node], one: Tensor, many: Tensor) -> None:
        dims = [dim for dim, size in enumerate(shape_of(node)) if is_dynamic(size)]
        row = one
        for dim in dims:
            row = row.narrow(dim, 0, 1)
        broadcasts = all_alike(row.expand_as(many), many)
        tiles = dims == [0] and all_alike(one.repeat(_ROWS, *[1] * (one.dim() - 1)), many)
        for user in users:
            with self._rewriter.before(node):
                first = self._one_inference(node) if broadcasts or tiles else node
                once = first
                for dim in dims if broadcasts else ():
                    if shape_of(once)[dim] != 1:
                        once = self._rewriter.call(aten.slice.Tensor, once, dim, 0, 1)
            if (not dims and broadcasts) or (broadcasts and self._takes(user, node, once)):
                user.replace_input_with(node, once)
            elif tiles:
                with self._rewriter.before(user):
                    repeated = self._rewriter.call(_rows_like(), first, self._like(user))
                user.replace_input_with(node, repeated)

    def _like(self, user: Node) -> Node | None:
        """An input; beside one that the model rounds, what a call takes with a constant."""
        if self._input is None or not any(map(is_rounding, self._input.users)):
            return self._input
        streams = [item for item in user.all_input_nodes if item not in self._constants]
        rows = (item for item in streams if any(map(is_dynamic, shape_of(item)[:1])))
        return next(rows, self._input)

    def _takes(self, user: Node, node: Node, once: Node) -> bool:
        """True if a call gives the same with one row; a join is made to."""
        if user.op != "call_function":
            return False
        if user.target in _ROW_BY_ROW:
            return aten_arguments(user)[_ROW_BY_ROW[user.target]] is node
        name = str(user.target)
        if name in _JOINS:
            arguments = aten_arguments(user)
            if is_dynamic(shape_of(user)[arguments["dim"]]):
                return False
            user.target = torch_target(_JOINS[name])
            return True
        if "scatter" in name or "gather" in name:
            return False
        args, kwargs = map_arg(
            (user.args, user.kwargs), lambda item: once if item is node else item
        )
        try:
            value = self._rewriter.value_of(user.target, args, kwargs)
        except (RuntimeError, IndexError, ValueError, TypeError):
            return False
        return _shapes(value) == _shapes(user.meta["val"])

    def _one_inference(self, node: Node) -> Node:
        if node.op == "get_attr":
            return node
        if node not in self._single:
            call = self._rewriter.call
            if node.target is _rows_like():
                single = self._operand(operands_of(node)[0])
            elif shaped_like(node) is not None:
                value = self._constants.value(node)
                assert value is not None
                sizes = list(value.shape)
                if node.target is aten.expand_as.default:
                    single = call(aten.expand.default, self._operand(operands_of(node)[0]), sizes)
                else:
                    number = value.flatten()[0].item() if value.numel() else 0
                    single = call(aten.full.default, sizes, number, dtype=value.dtype)
            else:
                args, kwargs = map_aggregate((node.args, node.kwargs), self._operand)
                single = call(node.target, *args, **kwargs)
            self._single[node] = single
        return self._single[node]

    def _operand(self, value: Argument) -> Argument:
        size = value.meta.get("val") if isinstance(value, Node) else value
        if isinstance(size, torch.SymInt):
            return size_of(size, 1)
        return self._one_inference(value) if isinstance(value, Node) else value


def _rows_like() -> Argument:
    return torch_target("mase.rows_like.default")


def _shapes(value: Argument) -> list[list[str]]:
    return [list(map(str, item.shape)) for item in torch.utils._pytree.tree_leaves(value)]


def _count_rows(rewriter: Rewriter, node: Node) -> None:
    """Count the rows of an input where their number is computed with, as in a mean over them."""
    schema: Argument = getattr(node.target, "_schema", None)
    for place, value in enumerate(operands_of(node) if schema is not None else ()):
        if not is_dynamic(value) or not isinstance(schema.arguments[place].type, torch.TensorType):
            continue
        rows = _counted(rewriter, value)
        for _ in shape_of(rows)[1:]:
            rows = rewriter.call(aten.select.int, rows, 1, 0)
        if rows is not None:
            ones = rewriter.call(aten.ones_like.default, rows)
            node.update_arg(place, rewriter.call(aten.sum.default, ones))


def _counted(rewriter: Rewriter, rows: Argument) -> Node | None:
    size = rows.meta["val"] if isinstance(rows, Node) else rows
    inputs = (item for item in rewriter.graph.nodes if item.op == "placeholder")
    return next((item for item in inputs if known_shape(item)[:1] == [size.node.expr]), None)


def _numbers_rows(rewriter: Rewriter, index: Argument, each: int = 1) -> bool:
    """True if an index is 0, 1, ... along its first dimension, for every row of a batch.

    Args:
        rewriter: of the graph.
        index: the index.
        each: how often each number comes.
    """
    shape = shape_of(index)
    if not shape or not is_dynamic(shape[0]):
        return False
    value = Constants(rewriter.module).value(index, _ROWS)
    numbers = torch.arange(_ROWS).repeat_interleave(each).reshape(-1, *[1] * (len(shape) - 1))
    return value is not None and torch.equal(value, numbers.expand(-1, *value.shape[1:]))


def _index_rows(rewriter: Rewriter, node: Node) -> Node | None:
    """Write `x[rows, i, ...]` as `x[:, i, ...]`, or as a gather where each row has its own `i`."""
    source: Argument = operands_of(node)[0]
    indices: list[Argument] = list(operands_of(node)[1])
    if not _numbers_rows(rewriter, indices[0]):
        pick: Argument = {1: _pick_merged, 2: _pick_flat}.get(len(indices))
        return None if pick is None else pick(rewriter, source, *indices)
    if _names_all(source, indices):
        return rewriter.call(aten.alias.default, source)
    shared = _shared_by_rows(rewriter, indices)
    if shared is not None:
        return rewriter.call(aten.index.Tensor, source, shared)
    own = _by_rows(rewriter, source, indices)
    return None if own is None else _pick(rewriter, *own)


def _pick_flat(rewriter: Rewriter, source: Node, rows: Argument, index: Argument) -> Node | None:
    """Write `x[rows, i]` of indices that were flattened, several for each row, as a gather."""
    known = known_shape(index)
    if len(known) != 1 or known_shape(rows) != known or not is_dynamic(shape_of(index)[0]):
        return None
    each = size_of(shape_of(index)[0], 1)
    if not _numbers_rows(rewriter, rows, each):
        return None
    several = rewriter.call(aten.reshape.default, index, [-1, each])
    picked = _pick(rewriter, source, _from_front(rewriter, several, int(shape_of(source)[1])))
    return rewriter.call(aten.reshape.default, picked, [-1, *shape_of(source)[2:]])


def _pick_merged(rewriter: Rewriter, source: Node, index: Argument) -> Node | None:
    """Write `x.flatten(0, 1)[i + rows * n]` as a gather from `x` at `i`; n is the length of `x`."""
    shape, call = known_shape(index), rewriter.call
    while isinstance(index, Node) and index.target in _RESHAPES:
        index = index.args[0]
    if not isinstance(index, Node) or index.target is not aten.add.Tensor:
        return None
    length = size_of(shape_of(source)[0], 1)
    constants, (first, second) = Constants(rewriter.module), index.args
    if first in constants:
        first, second = second, first
    offset, sizes = constants.value(second, _ROWS), shape_of(index)
    if first in constants or offset is None or not is_dynamic(sizes[0]):
        return None
    starts = torch.arange(0, _ROWS * length, length).reshape(-1, *[1] * (len(sizes) - 1))
    if offset.dim() > len(sizes) or not bool((offset == starts).all()):
        return None
    rows = call(aten.reshape.default, source, [-1, length, *shape_of(source)[1:]])
    spread = call(aten.expand.default, first, [-1, *sizes[1:]])
    picked = _pick(rewriter, rows, spread)
    return call(aten.reshape.default, picked, [-1, *map(int, shape[1:]), *shape_of(source)[1:]])


def _put_rows(rewriter: Rewriter, node: Node) -> Node | None:
    """Write what is assigned to `x[rows, i, ...]` as assigned to `x[:, i, ...]`."""
    source, places, values, *rest = operands_of(node)
    indices: list[Argument] = list(places)
    if _numbers_elements(indices, values):
        ones = rewriter.call(aten.ones_like.default, indices[0])
        numbers = rewriter.call(aten.sub.Tensor, rewriter.call(aten.cumsum.default, ones, 0), 1)
        return rewriter.call(overload(node.target), source, indices, numbers, *rest)
    if not _numbers_rows(rewriter, indices[0]):
        return None
    if _names_all(source, indices) and not any(rest):
        return copied(rewriter, source, values)
    shared = _shared_by_rows(rewriter, indices)
    if shared is not None:
        return rewriter.call(overload(node.target), source, shared, values, *rest)
    own = None if None in indices else _by_rows(rewriter, source, indices)
    if own is None:
        return None
    written = _write(rewriter, *own, values, any(rest))
    sizes = [-1, *map(int, shape_of(source)[1:])]
    whole = written is None or own[0] is source
    return written if whole else rewriter.call(aten.reshape.default, written, sizes)


def _numbers_elements(indices: list[Argument], values: Argument) -> bool:
    """True if elements of an index are numbered, as in the inverse of a permutation.

    A count up to the number of all rows' elements depends on the batch.
    """
    shape = known_shape(values)
    counts = isinstance(values, Node) and values.target is aten.arange.default
    return (
        counts
        and len(indices) == 1
        and known_shape(indices[0]) == shape
        and is_dynamic(shape_of(values)[0])
    )


def _names_all(source: Argument, indices: list[Argument]) -> bool:
    """True if indices, of which the first one counts rows, name all of a tensor in order."""
    return len(indices) == 1 and known_shape(indices[0]) == known_shape(source)[:1]


def _shared_by_rows(rewriter: Rewriter, indices: list[Argument]) -> list[Argument] | None:
    rank, rows = len(shape_of(indices[0])), shape_of(indices[0])[1:]
    shared: list[Argument] = [None]
    for index in indices[1:]:
        shape = shape_of(index)
        if (
            not isinstance(index, Node)
            or len(shape) > rank
            or (any(size != 1 for size in rows) and shape[-len(rows) :] != rows)
            or (len(shape) == rank and shape[0] != 1)
        ):
            return None
        if len(shape) == rank:
            index = rewriter.call(aten.select.int, index, 0, 0)
        for _ in range(rank - 1 - len(shape)):
            index = rewriter.call(aten.unsqueeze.default, index, 0)
        shared.append(index)
    return shared if len(shared) > 1 else None


def _pick(rewriter: Rewriter, source: Node, index: Node) -> Node | None:
    """Return the elements of each row at indices of its own."""
    call, (length, *rest) = rewriter.call, map(int, shape_of(source)[1:])
    sizes = [int(size) for size in shape_of(index)[1:]]
    count, several, ones = prod(sizes), len(sizes) > 0, [1] * len(rest)
    if not source.meta["val"].is_floating_point():
        spread = _spread(rewriter, index, rest)
        picked = call(aten.gather.default, source, 1, spread)
        return call(aten.reshape.default, picked, [-1, *sizes, *rest])
    spread = call(aten.reshape.default, index, [-1, *[count] * several, 1, *ones])
    if several:
        source = call(aten.unsqueeze.default, source, 1)
    places = call(aten.reshape.default, call(aten.arange.default, length), [length, *ones])
    chosen = call(aten.where.ScalarOther, call(aten.eq.Tensor, spread, places), source, 0.0)
    picked = call(aten.sum.dim_IntList, chosen, [1 + several])
    return call(aten.reshape.default, picked, [-1, *sizes, *rest]) if several else picked


def _write(
    rewriter: Rewriter, source: Node, index: Node, values: Node, accumulate: bool
) -> Node | None:
    """Write values to, or add them at, indices that each row has of its own."""
    call, rest = rewriter.call, [int(size) for size in shape_of(source)[2:]]
    sizes = [int(size) for size in shape_of(index)[1:]]
    if len(shape_of(values)) > 1 + len(sizes) + len(rest):
        return None
    spread = _spread(rewriter, index, rest)
    number = Constants(rewriter.module).value(values)
    if number is not None and number.numel() == 1 and not accumulate:
        return call(aten.scatter.value, source, 1, spread, number.item())
    if any(map(is_dynamic, shape_of(values)[:1])):
        written = call(aten.expand.default, values, [-1, *sizes, *rest])
    else:
        row = call(aten.expand.default, values, [1, *sizes, *rest])
        written = call(_rows_like(), row, source)
    written = call(aten.reshape.default, written, [-1, prod(sizes), *rest])
    target = aten.scatter_add.default if accumulate else aten.scatter.src
    return call(target, source, 1, spread, written)


def _spread(rewriter: Rewriter, index: Node, rest: list[int]) -> Node:
    """Return indices of each row as `[rows, count, *rest]`, the same for the rest."""
    call, count = rewriter.call, prod(map(int, shape_of(index)[1:]))
    spread = call(aten.reshape.default, index, [-1, count, *[1] * len(rest)])
    return call(aten.expand.default, spread, [-1, count, *rest]) if rest else spread


def _from_front(rewriter: Rewriter, index: Node, length: int) -> Node:
    """Return indices of which negative ones count from the end, counted from the front."""
    call = rewriter.call
    if _counts_from_front(index):
        return index
    behind = call(aten.lt.Scalar, index, 0)
    return call(aten.where.self, behind, call(aten.add.Tensor, index, length), index)


def _by_rows(rewriter: Rewriter, source: Node, indices: list[Argument]) -> tuple[Node, Node] | None:
    """Return a tensor and an index into its second dimension, from indices behind one of rows.

    Dimensions that are indexed become the second one, in front of the others.
    """
    (rows, *behind), call = indices, rewriter.call
    shape = [int(size) for size in shape_of(source)[1:]]
    dims = [dim for dim, item in enumerate(behind) if item is not None]
    index: Argument = None
    for dim in dims:
        place = behind[dim]
        if not isinstance(place, Node) or len(shape_of(place)) != len(shape_of(rows)):
            return None
        place = _from_front(rewriter, place, shape[dim])
        if index is not None:
            place = call(aten.add.Tensor, call(aten.mul.Tensor, index, shape[dim]), place)
        index = place
    if index is None or not is_dynamic(shape_of(index)[0]):
        return None
    sizes = [max(pair) for pair in zip(shape_of(index)[1:], shape_of(rows)[1:], strict=True)]
    if sizes != list(shape_of(index)[1:]):
        index = call(aten.expand.default, index, [-1, *sizes])
    others = [dim for dim in range(len(shape)) if dim not in dims]
    if others and dims[-1] > others[0]:
        source = call(aten.permute.default, source, [0, *(dim + 1 for dim in (*dims, *others))])
    if len(dims) > 1:
        length = prod(shape[dim] for dim in dims)
        source = call(aten.reshape.default, source, [-1, length, *(shape[dim] for dim in others)])
    return source, index


def _counts_from_front(index: Node) -> bool:
    """True if an index is that of an element of a row, which is never below zero."""
    while index.target in _MOVES:
        index = operands_of(index)[0]
    return index.target in _PLACES


_PLACES = (
    *(aten.argmax.default, aten.argmin.default, aten.argsort.default, aten.argsort.stable),
    *(aten.topk.default, aten.sort.default, aten.sort.stable),
)
_RESHAPES = (aten.reshape.default, aten.view.default, aten.flatten.using_ints, aten.alias.default)
# What moves elements alone.
_MOVES = (
    *(*_RESHAPES, operator.getitem, aten.unsqueeze.default, aten.squeeze.dim, aten.select.int),
    *(aten.slice.Tensor, aten.expand.default, aten.transpose.int, aten.clone.default),
)


def _look_up_shared(rewriter: Rewriter, node: Node) -> Node | None:
    source, dim, index = operands_of(node)[:3]
    constants, shape = Constants(rewriter.module), shape_of(source)
    if len(shape) != 2 or dim not in (1, -1) or not is_dynamic(shape[0]) or index in constants:
        return None
    rows = constants.value(source, _ROWS)
    if rows is None or not torch.equal(rows, rows[:1].expand_as(rows)):
        return None
    row = rewriter.call(aten.select.int, source, 0, 0)
    return rewriter.call(aten.index.Tensor, row, [index])


def _select_merged(rewriter: Rewriter, node: Node) -> Node | None:
    source, dim, index = operands_of(node)
    return _pick_merged(rewriter, source, index) if dim == 0 else None


def _affine_grid(rewriter: Rewriter, node: Node) -> Node:
    """Write `affine_grid`, whose points are the same for all rows, as a linear layer."""
    theta, (_, _, *space), corners = operands_of(node)
    dims = len(space)
    plain = torch.eye(dims, dims + 1).unsqueeze(0)
    points = aten.affine_grid_generator.default(plain, [1, 1, *space], corners).reshape(-1, dims)
    points = torch.cat([points, torch.ones(len(points), 1)], 1)
    places = rewriter.constant(f"{node.name}_points", points)
    moved = rewriter.call(aten.linear.default, theta, places)
    rows = rewriter.call(aten.transpose.int, moved, 1, 2)
    return rewriter.call(aten.reshape.default, rows, [-1, *space, dims])


def _zeros(rewriter: Rewriter, node: Node) -> Node:
    kwargs = {key: value for key, value in node.kwargs.items() if key != "memory_format"}
    return rewriter.call(_UNWRITTEN[node.target], *node.args, **kwargs)


_RULES: dict[object, Rule] = {
    **dict.fromkeys(_UNWRITTEN, _zeros),
    aten.index.Tensor: _index_rows,
    aten.index_put.default: _put_rows,
    aten.gather.default: _look_up_shared,
    aten.index_select.default: _select_merged,
    aten.affine_grid_generator.default: _affine_grid,
    # A product broadcasts where one row of a constant is left.
    aten.bmm.default: lambda rewriter, node: rewriter.call(aten.matmul.default, *node.args),
}
