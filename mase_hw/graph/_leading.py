"""Simplification where the batch dimension leaves the first place and returns to it.

Layers that take time before the batch stand between two transpositions, and the last states of
recurrent layers are stacked before it. What is computed does not change; in the order in which the
batch stays first, inferences follow each other. Transpositions that meet are one, or none. What
computes alike in either order of the first two dimensions, such as layers and norms, is computed
before a transposition: whether a call does is tried on random values, no list of them is needed.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from mase_hw._aten import aten, overload
from mase_hw._kinds import Argument, Record
from mase_hw.graph._rewriter import Constants, Rewriter, Rule, is_dynamic, operands_of, shape_of
from mase_hw.graph.nodes import aten_arguments

# Arguments that are dimensions.
_ALONG = ("dim", "dims")
_ROWS = 5
_MOST_ELEMENTS = 1 << 22
_TOLERANCE = 1e-9
_Arguments = tuple[tuple[Argument, ...], Record]


def keep_batch_first(module: GraphModule) -> None:
    """Take transpositions of the first two dimensions together, in place."""
    rewriter = Rewriter(module)
    rewriter.run({aten.unsqueeze.default: _put_behind})
    while rewriter.run(_RULES, _moved_before):
        module.graph.eliminate_dead_code()


def _rank(node: object) -> int:
    return len(shape_of(node))


def _leads(node: object) -> bool:
    return any(map(is_dynamic, shape_of(node)[:1]))


def _order(node: object) -> list[int]:
    """Return the order of a source's dimensions that a node gives; none for another node."""
    order = list(range(_rank(node)))
    if not isinstance(node, Node) or not order:
        return []
    if node.target is aten.transpose.int:
        first, second = (dim % len(order) for dim in operands_of(node)[1:3])
        order[first], order[second] = second, first
        return order
    if node.target is aten.permute.default:
        return [dim % len(order) for dim in operands_of(node)[1]]
    return []


def _swaps(node: object) -> bool:
    order = _order(node)
    return order[:2] == [1, 0] and order[2:] == list(range(2, len(order)))


def _moves_batch(node: object) -> bool:
    return _order(node)[:1] not in ([], [0])


def _put_behind(rewriter: Rewriter, node: Node) -> Node | None:
    """Make a dimension of one behind the batch instead of before it, and transpose."""
    source, dim = operands_of(node)[:2]
    if dim % _rank(node) or not _leads(source):
        return None
    behind = rewriter.call(aten.unsqueeze.default, source, 1)
    return rewriter.call(aten.transpose.int, behind, 0, 1)


def _composed(rewriter: Rewriter, node: Node) -> Node | None:
    source: Argument = operands_of(node)[0]
    if not (_swaps(node) and _swaps(source)) and not _moves_batch(source):
        return None
    inner = _order(source)
    order = [inner[dim] for dim in _order(node)]
    origin: Node = operands_of(source)[0]
    if order == sorted(order):
        return origin
    return rewriter.call(aten.permute.default, origin, order)


def _stack_dim(node: object) -> int | None:
    if not isinstance(node, Node) or node.target is not aten.stack.default:
        return None
    dim: int = aten_arguments(node)["dim"]
    return dim % _rank(node)


def _stacked_behind(rewriter: Rewriter, node: Node) -> Node | None:
    """Make the second dimension, not the first one, of a stack of rows, and transpose."""
    if _stack_dim(node) != 0 or not all(map(_leads, operands_of(node)[0])):
        return _moved_before(rewriter, node)
    stack = rewriter.call(aten.stack.default, operands_of(node)[0], 1)
    return rewriter.call(aten.transpose.int, stack, 0, 1)


def _picked(rewriter: Rewriter, node: Node) -> Node | None:
    """Take a part out of a stack, or of what is transposed, before it is."""
    source: Argument = operands_of(node)[0]
    dim, *rest = operands_of(node)[1:] or (0,)
    dim, is_squeeze = dim % _rank(source), node.target is aten.squeeze.dim
    if _stack_dim(source) == dim and node.target is aten.select.int:
        member: Node = operands_of(source)[0][rest[0]]
        return member
    if _stack_dim(source) == dim and is_squeeze and len(operands_of(source)[0]) == 1:
        (member,) = operands_of(source)[0]
        return member
    if dim == 0 and _swaps(source) and (not is_squeeze or shape_of(source)[0] == 1):
        return rewriter.call(node.target, operands_of(source)[0], 1, *rest)
    if dim == 0 and not is_squeeze and _moves_batch(source):
        return _picked_first(rewriter, node, operands_of(source)[0], _order(source), rest)
    return _moved_before(rewriter, node)


def _picked_first(
    rewriter: Rewriter, node: Node, source: Argument, order: list[int], index: list[Argument]
) -> Node:
    """Take of a permutation's first dimension before the permutation.

    Queries, keys and values that one layer computes are taken apart so.
    """
    rest = [dim - (dim > order[0]) for dim in order[1:]]
    picked = rewriter.call(node.target, source, order[0], *index)
    if rest == sorted(rest):
        return picked
    if node.target is aten.select.int:
        return rewriter.call(aten.permute.default, picked, rest)
    for user in list(node.users):
        user.meta["val"] = picked.meta["val"][operands_of(user)[1]]
        with rewriter.before(user.next):
            moved = rewriter.call(aten.permute.default, user, rest)
        user.replace_all_uses_with(moved, delete_user_cb=moved.__ne__)
    return picked


def _reshaped(rewriter: Rewriter, node: Node) -> Node | None:
    """Give what is transposed along a dimension of one another shape without that."""
    source, *sizes = operands_of(node)
    if not _swaps(source) or 1 not in shape_of(source)[:2]:
        return _moved_before(rewriter, node)
    return rewriter.call(aten.reshape.default, source.args[0], *sizes)


def _moved_before(rewriter: Rewriter, node: Node) -> Node | None:
    """Compute before transpositions what is the same there; along the one of both dimensions too.

    Further operands have to be constants.
    """
    operands = node.all_input_nodes
    is_plain = isinstance(node.target, torch._ops.OpOverload) and _rank(node) > 0
    swapped = [item for item in operands if _swaps(item)]
    constants = Constants(rewriter.module)
    rest = [item for item in operands if item not in swapped]
    if (
        not is_plain
        or not swapped
        or any(
            item not in constants or not isinstance(item.meta.get("val"), Tensor) for item in rest
        )
    ):
        return None
    if not all(
        _leads(operands_of(item)[0])
        and not any(map(is_dynamic, shape_of(operands_of(item)[0])[1:]))
        for item in swapped
    ):
        return None
    turned = [item for item in rest if _rank(item) == _rank(node)]
    for arguments in (_arguments(node), _arguments(node, _rank(swapped[0]))):
        turns_back = _turns_back(node, arguments, [*swapped, *turned])
        if turns_back is not None:
            sources: dict[Node, Argument] = {item: operands_of(item)[0] for item in swapped}
            for item in turned:
                sources[item] = rewriter.call(aten.transpose.int, item, 0, 1)
            args, kwargs = map_arg(
                arguments, {**dict(zip(rest, rest, strict=True)), **sources}.__getitem__
            )
            moved = rewriter.call(node.target, *args, **kwargs)
            return rewriter.call(aten.transpose.int, moved, 0, 1) if turns_back else moved
    return None


def _arguments(node: Node, rank: int = 0) -> _Arguments:
    args, kwargs = list[Argument](), Record()
    schema = overload(node.target)._schema
    for item, value in zip(schema.arguments, aten_arguments(node).values(), strict=True):
        if rank and item.name in _ALONG:
            several = isinstance(value, list | tuple)
            dims = [_other(dim, rank) for dim in (value if several else [value])]
            value = dims if several else dims[0]
        if item.kwarg_only:
            kwargs[item.name] = value
        else:
            args.append(value)
    return tuple(args), kwargs


def _other(dim: object, rank: int) -> Argument:
    """Return the other of the first two dimensions; a further one, or none, as it is."""
    place = dim % rank if isinstance(dim, int) else None
    return 1 - place if place in (0, 1) else dim


def _turns_back(node: Node, arguments: _Arguments, turned: Sequence[Node]) -> bool | None:
    """True if a call of transposed operands gives the transposed result of a node.

    It is tried on random values. False where it gives the result as it is, which has no longer both
    dimensions, and None where it gives another one.
    """
    values: dict[Node, Tensor] = {}
    generator = torch.Generator().manual_seed(0)
    for item in node.all_input_nodes:
        shape = [_ROWS if is_dynamic(size) else int(size) for size in shape_of(item)]
        if torch.Size(shape).numel() > _MOST_ELEMENTS:
            return None
        random = torch.rand(shape, generator=generator, dtype=torch.float64)
        value: Tensor = item.meta["val"]
        values[item] = random if value.is_floating_point() else (random * 3).to(value.dtype)
    moved = {**values, **{item: values[item].transpose(0, 1) for item in turned}}
    try:
        expected, result = (
            overload(node.target)(*args, **kwargs)
            for args, kwargs in (
                map_arg((node.args, node.kwargs), values.__getitem__),
                map_arg(arguments, moved.__getitem__),
            )
        )
    except (RuntimeError, IndexError, ValueError, TypeError):
        return None
    if not isinstance(expected, Tensor) or not isinstance(result, Tensor):
        return None
    if result.dim() > 1 and _is_same(expected, result.transpose(0, 1)):
        return True
    is_rows = _leads(node) and not any(map(is_dynamic, shape_of(node)[1:]))
    return False if is_rows and _is_same(expected, result) else None


def _is_same(expected: Tensor, result: Tensor) -> bool:
    return expected.shape == result.shape and torch.allclose(
        expected.double(), result.double(), rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True
    )


_RULES: dict[object, Rule] = {
    aten.transpose.int: _composed,
    aten.permute.default: _composed,
    aten.stack.default: _stacked_behind,
    aten.select.int: _picked,
    aten.unbind.int: _picked,
    aten.squeeze.dim: _picked,
    aten.view.default: _reshaped,
    aten.reshape.default: _reshaped,
}
