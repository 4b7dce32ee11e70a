"""Elements that are written, added or picked at constant places, written as where each comes from.

Slice assignment, `scatter`, `index_add` and their like move elements, and add some of them. Where
their indices are constant each element of the result is a sum of elements of the two operands: the
operator is run on numbers that count them. A mask that is computed becomes a choice.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from mase_hw._aten import aten, overload
from mase_hw._kinds import Argument, Record
from mase_hw.graph._rewriter import Constants, Rewriter, is_dynamic, known_shape, shape_of, size_of
from mase_hw.graph.nodes import aten_arguments
from mase_hw.ops import torch_target

# What each takes its new elements from; None for a number.
_MOVES: dict[object, str] = {
    aten.slice_scatter.default: "src",
    aten.select_scatter.default: "src",
    aten.diagonal_scatter.default: "src",
    aten.scatter.src: "src",
    aten.scatter.value: "value",
    aten.scatter_add.default: "src",
    aten.index_add.default: "source",
    aten.index_copy.default: "source",
    aten.index_fill.int_Scalar: "value",
    aten.index_fill.int_Tensor: "value",
    aten.index_put.default: "values",
}
_ADDS = (aten.scatter_add.default, aten.index_add.default)
# What computes each element by itself, and is not tagged so.
_BY_ELEMENT = (
    aten.where.ScalarSelf,
    aten.where.ScalarOther,
    aten.where.Scalar,
    aten.hardswish.default,
    aten.to.dtype,
    aten.alias.default,
    aten.detach.default,
)
_MOST_ELEMENTS = 1 << 12
_ROWS = 2


def place_elements(module: GraphModule) -> None:
    """Rewrite, in place, what writes or adds elements of a canonical graph at constant places."""
    Rewriter(module).run(dict.fromkeys(_MOVES, lambda *call: _chosen(*call) or _placed(*call)))


def _chosen(rewriter: Rewriter, node: Node) -> Node | None:
    """Write an assignment where a mask that is computed holds as a choice.

    It is one of a number, of a row, or of what is computed of the elements under the same mask
    each by itself, as by `x[x < 0] *= 0.1`.
    """
    if node.target is not aten.index_put.default:
        return None
    base, indices, values, *rest = aten_arguments(node).values()
    constants, (mask, *more) = Constants(rewriter.module), indices
    if more or any(rest) or mask in constants or mask.meta["val"].dtype is not torch.bool:
        return None
    call, number = rewriter.call, constants.value(values)
    behind = known_shape(base)[len(shape_of(mask)) :]
    whole = _unmasked(rewriter, values, mask)
    for _ in behind:
        mask = call(aten.unsqueeze.default, mask, -1)
    if number is not None and number.numel() == 1:
        return call(aten.masked_fill.Scalar, base, mask, number.item())
    if whole is not None or (behind and known_shape(values) == behind):
        return call(aten.where.self, mask, whole or values, base)
    return None


def _unmasked(rewriter: Rewriter, value: Node, mask: Node) -> Node | None:
    """Return for all elements what is computed of those under a mask, each by itself."""
    if value.target is aten.index.Tensor:
        source, indices = value.args
        fits = known_shape(source)[: len(shape_of(mask))] == known_shape(mask)
        alike = len(indices) == 1 and _is_same(indices[0], mask)  # type: ignore[arg-type, index]
        return source if fits and alike else None  # type: ignore[return-value]
    alone = torch.Tag.pointwise in getattr(value.target, "tags", ())
    if value.op != "call_function" or not (alone or value.target in _BY_ELEMENT):
        return None
    # What does not count the elements under the mask is the same for all.
    counted = [item for item in value.all_input_nodes if _is_row(item)]
    whole = {item: _unmasked(rewriter, item, mask) for item in counted}
    if not whole or None in whole.values():
        return None
    args, kwargs = map_arg((value.args, value.kwargs), lambda item: whole.get(item, item))
    return rewriter.call(value.target, *args, **kwargs)


def _is_same(left: object, right: object) -> bool:
    if not isinstance(left, Node) or not isinstance(right, Node) or left is right:
        return left == right
    if left.op != "call_function" or left.target != right.target or left.kwargs != right.kwargs:
        return False
    if torch.Tag.nondeterministic_seeded in getattr(left.target, "tags", ()):
        return False
    pairs = zip(left.args, right.args, strict=False)
    return len(left.args) == len(right.args) and all(_is_same(*pair) for pair in pairs)


def _placed(rewriter: Rewriter, node: Node) -> Node | None:
    arguments = aten_arguments(node)
    with torch.no_grad():
        places = _places(rewriter.module, node, arguments)
    if places is None:
        return None
    base, values = arguments["self"], arguments[_MOVES[node.target]]
    if not isinstance(values, Node):
        number = torch.tensor([values], dtype=node.meta["val"].dtype)
        values = rewriter.constant(f"{node.name}_value", number)
    values = _alike(rewriter, _one_row(values), base, arguments.get("dim"))
    read = rewriter.constant(f"{node.name}_places", places)
    return rewriter.call(torch_target("mase.placed.default"), _one_row(base), values, read)


def _one_row(value: Node) -> Node:
    is_repeated = value.target is torch_target("mase.rows_like.default")
    return value.args[0] if is_repeated else value  # type: ignore[return-value]


def _alike(rewriter: Rewriter, values: Node, base: Node, dim: Argument) -> Node:
    """Return new elements in as many dimensions as the tensor has that they are written to."""
    sizes, rank = shape_of(values), len(shape_of(base))
    if len(sizes) == rank:
        return values
    if _is_row(values) and len(sizes) == rank - 1 and dim is not None:
        return rewriter.call(aten.unsqueeze.default, values, dim)
    rows, flat = (-1, sizes[1:]) if _is_row(values) else (1, sizes)
    elements = torch.Size(map(int, flat)).numel()
    return rewriter.call(aten.reshape.default, values, [rows, elements, *[1] * (rank - 2)])


def _is_row(node: object) -> bool:
    return any(map(is_dynamic, shape_of(node)[:1]))


def _places(module: GraphModule, node: Node, arguments: Record) -> Tensor | None:
    """Return, for each element of one inference's result, the places that are summed.

    Elements of the first operand count from 0, those of the second go on, and the one behind them
    is zero. None where that depends on the inference, or on what is computed.
    """
    if not _is_row(arguments["self"]):
        return None
    adds = node.target in _ADDS or bool(arguments.get("accumulate"))
    tables, constants = [], Constants(module)
    for rows in (1, _ROWS):
        run = _Run(constants, node, arguments, rows)
        try:
            tables.append(run.sums() if adds else run.moves())
        except (RuntimeError, TypeError, IndexError, ValueError):
            return None
    once, several = tables
    if once is None or several is None or not all(torch.equal(row, once[0]) for row in several):
        return None
    return once[0]


class _Run:
    """A call on numbers that count elements, of so many rows."""

    def __init__(self, constants: Constants, node: Node, arguments: Record, rows: int) -> None:
        self._node, self._arguments, self._rows = node, arguments, rows
        self._constants = constants
        self._operands = (arguments["self"], arguments[_MOVES[node.target]])
        self.count = [
            torch.Size(map(int, shape_of(item)[_is_row(item) :])).numel() for item in self._operands
        ]

    def __call__(self, base: Tensor, source: object) -> Tensor:
        target, name = overload(self._node.target), _MOVES[self._node.target]
        arguments = {**self._arguments, "self": base, name: source}
        values = dict(map_arg(arguments, self._constant))
        keywords = [item.name for item in target._schema.arguments if item.kwarg_only]
        named = {key: values.pop(key) for key in keywords}
        return target(*values.values(), **named)

    def _constant(self, item: Node) -> Tensor:
        value = self._constants.value(item, self._rows)
        if value is None:
            raise ValueError(item)
        return value

    def _elements(self, operand: int, row: Tensor) -> Tensor:
        node = self._operands[operand]
        if not _is_row(node):
            return row.reshape([int(size) for size in shape_of(node)])
        sizes = [size_of(size, self._rows) for size in shape_of(node)]
        return row.reshape(1, *sizes[1:]).expand(sizes).contiguous()

    def moves(self) -> Tensor | None:
        """Return the source of each element, `[rows, ..., 1]`."""
        base, source = self.count
        numbers: Tensor | int = base
        if isinstance(self._operands[1], Node):
            numbers = self._elements(1, torch.arange(base, base + source))
        return self(self._elements(0, torch.arange(base)), numbers).unsqueeze(-1)

    def sums(self) -> Tensor | None:
        """Return which elements each is a sum of: `[rows, ..., terms]`, filled up with zero."""
        base, source = self.count
        if max(self.count) > _MOST_ELEMENTS:
            return None
        own, terms = self._elements(0, torch.arange(base)), []
        for one in torch.eye(source, dtype=torch.int64):
            terms.append(self(torch.zeros_like(own), self._elements(1, one)))
        stacked = torch.stack(terms, -1)
        if bool(((stacked != 0) & (stacked != 1)).any()):
            return None
        width = int(stacked.sum(-1).max())
        chosen = torch.where(stacked == 1, torch.arange(source) + base, base + source)
        return torch.cat([own.unsqueeze(-1), chosen.sort(-1).values[..., :width]], -1)
