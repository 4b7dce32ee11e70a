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
from mase_hw.graph._rewriter import Constants
from mase_hw.graph.calls import aten_arguments
from mase_hw.graph.rebuild import set_tensor
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
    for node in list(module.graph.nodes):
        if node.target in _MOVES:
            with torch.no_grad():
                _choose(module, node) or _place(module, node)


def _shape(node: object) -> list[Argument]:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return list(value.shape) if isinstance(value, Tensor) else []


def _replace(node: Node, made: Node) -> None:
    made.meta = dict(node.meta)
    node.replace_all_uses_with(made)
    node.graph.erase_node(node)


def _sizes(node: object) -> list[Argument]:
    return [size.node.expr if isinstance(size, torch.SymInt) else size for size in _shape(node)]


def _choose(module: GraphModule, node: Node) -> bool:
    """Write an assignment where a mask that is computed holds as a choice.

    It is one of a number, of a row, or of what is computed of the elements under the same mask
    each by itself, as by `x[x < 0] *= 0.1`.
    """
    if node.target is not aten.index_put.default:
        return False
    base, indices, values, *rest = aten_arguments(node).values()
    if len(indices) != 1 or any(rest) or Constants(module).value(indices[0]) is not None:
        return False
    (mask,) = indices
    if mask.meta["val"].dtype is not torch.bool:
        return False
    call, value = module.graph.call_function, Constants(module).value(values)
    behind = _shape(base)[len(_shape(mask)) :]
    with module.graph.inserting_before(node):
        whole = _unmasked(module, values, mask)
        wide = mask
        for _ in behind:
            wide = call(aten.unsqueeze.default, (wide, -1))
        if value is not None and value.numel() == 1:
            made = call(aten.masked_fill.Scalar, (base, wide, value.item()))
        elif whole is not None:
            made = call(aten.where.self, (wide, whole, base))
        elif behind and _shape(values) == behind:
            made = call(aten.where.self, (wide, values, base))
        else:
            return False
    _replace(node, made)
    return True


def _unmasked(module: GraphModule, value: Node, mask: Node) -> Node | None:
    """Return for all elements what is computed of those under a mask, each by itself."""
    if value.target is aten.index.Tensor:
        source: Node = value.args[0]  # type: ignore[assignment]
        indices: Argument = value.args[1]
        fits = _sizes(source)[: len(_sizes(mask))] == _sizes(mask)
        return source if fits and len(indices) == 1 and _is_same(indices[0], mask) else None
    alone = torch.Tag.pointwise in getattr(value.target, "tags", ())
    if value.op != "call_function" or not (alone or value.target in _BY_ELEMENT):
        return None
    # What does not count the elements under the mask is the same for all.
    counted = [item for item in value.all_input_nodes if _is_row(item)]
    tried = {item: _unmasked(module, item, mask) for item in counted}
    made = {item: whole for item, whole in tried.items() if whole is not None}
    if not made or len(made) < len(tried):
        return None
    args, kwargs = map_arg((value.args, value.kwargs), lambda item: made.get(item, item))
    found = module.graph.call_function(value.target, args, kwargs)  # type: ignore[arg-type]
    found.meta = dict(value.meta)
    # Its elements are as many as those of the whole.
    found.meta["val"] = next(iter(made.values())).meta["val"].to(value.meta["val"].dtype)
    return found


def _is_same(left: object, right: object) -> bool:
    """Return whether two masks are computed alike."""
    if not isinstance(left, Node) or not isinstance(right, Node) or left is right:
        return left == right
    if left.op != "call_function" or left.target != right.target or left.kwargs != right.kwargs:
        return False
    if torch.Tag.nondeterministic_seeded in getattr(left.target, "tags", ()):
        return False
    pairs = zip(left.args, right.args, strict=False)
    return len(left.args) == len(right.args) and all(_is_same(*pair) for pair in pairs)


def _place(module: GraphModule, node: Node) -> bool:
    """Write a call as the places that its elements come from; return whether there are such."""
    given = aten_arguments(node)
    places = _places(module, node, given)
    if places is None:
        return False
    values: Argument = given[_MOVES[node.target]]
    name = f"{node.name}_places"
    set_tensor(module, name, places)
    call = module.graph.call_function
    with module.graph.inserting_before(node):
        if not isinstance(values, Node):
            number = torch.tensor([values], dtype=node.meta["val"].dtype)
            values = _constant(module, f"{node.name}_value", number)
        elif values.target is _rows_like():
            values = values.args[0]
        base: Argument = given["self"]
        values = _alike(module, values, _shape(base), given.get("dim"))
        read = _constant(module, name, places)
        base = base.args[0] if base.target is _rows_like() else base
        made = call(torch_target("mase.placed.default"), (base, values, read))
    _replace(node, made)
    return True


def _alike(module: GraphModule, values: Node, base: list[Argument], dim: Argument) -> Node:
    """Return new elements in as many dimensions as the tensor has that they are written to."""
    call, sizes = module.graph.call_function, _shape(values)
    if len(sizes) == len(base):
        return values
    if _is_row(values) and len(sizes) == len(base) - 1 and dim is not None:
        return call(aten.unsqueeze.default, (values, dim))
    rows, ones = (-1 if _is_row(values) else 1), [1] * (len(base) - 2)
    flat = torch.Size(sizes[1:] if _is_row(values) else sizes).numel()
    return call(aten.reshape.default, (values, [rows, flat, *ones]))


def _is_row(node: object) -> bool:
    """Return whether a tensor has a row for each inference."""
    return isinstance(next(iter(_shape(node)), None), torch.SymInt)


def _rows_like() -> Argument:
    return torch_target("mase.rows_like.default")


def _constant(module: GraphModule, name: str, value: Tensor) -> Node:
    set_tensor(module, name, value)
    made = module.graph.get_attr(name)
    made.meta["val"] = value
    return made


def _places(module: GraphModule, node: Node, given: Record) -> Tensor | None:
    """Return, for each element of one inference's result, the places that are summed.

    Elements of the first operand count from 0, those of the second go on, and the one behind them
    is zero. None where that depends on the inference, or on what is computed.
    """
    base, source = given["self"], given[_MOVES[node.target]]
    if not _is_row(base):
        return None
    adds = node.target in _ADDS or bool(given.get("accumulate"))
    found, constants = [], Constants(module)
    for rows in (1, _ROWS):
        sizes = [
            [rows if isinstance(size, torch.SymInt) else size for size in _shape(item)]
            for item in (base, source)
        ]
        known = {
            item: constants.value(item, rows)
            for item in node.all_input_nodes
            if item not in (base, source)
        }
        if any(value is None for value in known.values()):
            return None
        run = _Run(node, given, known, sizes, [_is_row(base), _is_row(source)])
        try:
            found.append(run.sums() if adds else run.moves())
        except (RuntimeError, TypeError, IndexError, ValueError):
            return None
    once, several = found
    if once is None or several is None or not all(torch.equal(row, once[0]) for row in several):
        return None
    return once[0]


class _Run:
    """A call on numbers that count elements."""

    def __init__(
        self,
        node: Node,
        given: Record,
        known: dict[Node, Tensor | None],
        sizes: list[list[int]],
        follow: list[bool],
    ) -> None:
        self.node, self.given, self.known = node, given, known
        self.sizes, self.follow = sizes, follow
        self.count = [
            torch.Size(shape[1:] if follows else shape).numel()
            for shape, follows in zip(sizes, follow, strict=True)
        ]

    def __call__(self, base: Tensor, source: object) -> Tensor:
        """Run the call on another base and another source."""
        name = _MOVES[self.node.target]
        given = {**self.given, "self": base, name: source}
        known = dict(map_arg(given, lambda item: self.known[item]))
        schema = overload(self.node.target)._schema
        named = {item.name: known.pop(item.name) for item in schema.arguments if item.kwarg_only}
        target = overload(self.node.target)
        found: Tensor = target(*known.values(), **named)
        return found

    def _rows(self, operand: int, row: Tensor) -> Tensor:
        """Return the elements of one row as those of an operand, alike in all rows."""
        sizes = self.sizes[operand]
        if not self.follow[operand]:
            return row.reshape(sizes)
        return row.reshape(1, *sizes[1:]).expand(sizes).contiguous()

    def moves(self) -> Tensor | None:
        """Return where each element comes from: `[rows, ..., 1]`."""
        base, source = self.count
        numbers: Tensor | int = base
        if isinstance(self.given[_MOVES[self.node.target]], Node):
            numbers = self._rows(1, torch.arange(base, base + source))
        return self(self._rows(0, torch.arange(base)), numbers).unsqueeze(-1)

    def sums(self) -> Tensor | None:
        """Return which elements each is a sum of: `[rows, ..., terms]`, filled up with zero."""
        base, source = self.count
        if max(self.count) > _MOST_ELEMENTS:
            return None
        own, terms = self._rows(0, torch.arange(base)), []
        for one in torch.eye(source, dtype=torch.int64):
            terms.append(self(torch.zeros_like(own), self._rows(1, one)))
        stacked = torch.stack(terms, -1)
        if bool(((stacked != 0) & (stacked != 1)).any()):
            return None
        width = int(stacked.sum(-1).max())
        chosen = torch.where(stacked == 1, torch.arange(source) + base, base + source)
        return torch.cat([own.unsqueeze(-1), chosen.sort(-1).values[..., :width]], -1)
