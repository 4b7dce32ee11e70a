"""What computes alike in either order of the first two dimensions, such as layers and norms.

Behind a transposition that moves the batch from the first dimension, such a call is made before it
instead. Whether a call is one is tried on random values: no list of operators is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from mase_hw._aten import aten, overload
from mase_hw._kinds import Argument, Record
from mase_hw.graph.calls import aten_arguments

Arguments = tuple[tuple[Argument, ...], Record]
# Arguments that are dimensions.
_ALONG = ("dim", "dims")
_ROWS = 5
_MOST_ELEMENTS = 1 << 22
_TOLERANCE = 1e-9


def moved_before(module: GraphModule, node: Node, swaps: Callable[[object], bool]) -> Node | None:
    """Return what replaces a call behind transpositions; None where its rows are not alone.

    A call along the one of both dimensions is a call along the other one before them.

    Args:
        module: holds the call.
        node: the call.
        swaps: says whether a node transposes the first two dimensions.
    """
    given = [item for item in node.all_input_nodes if _value(item) is not None]
    if len(given) != len(node.all_input_nodes) or not _is_plain(node):
        return None
    swapped = [item for item in given if swaps(item)]
    if not swapped or not all(_leads(item.args[0]) for item in swapped):
        return None
    rest = [item for item in given if item not in swapped]
    if not all(_is_constant(item) for item in rest):
        return None
    turned = [item for item in rest if _rank(item) == _rank(node)]
    for arguments in (_arguments(node), _arguments(node, _rank(swapped[0]))):
        turns_back = _is_alike(node, arguments, [*swapped, *turned])
        if turns_back is not None:
            return _replacement(module, node, arguments, swapped, turned, turns_back)
    return None


def _replacement(
    module: GraphModule,
    node: Node,
    arguments: Arguments,
    swapped: Sequence[Node],
    turned: Sequence[Node],
    turns_back: bool,
) -> Node:
    """Return the call before the transpositions, transposed where it has both dimensions."""
    with module.graph.inserting_before(node):
        sources: dict[Node, Argument] = {item: item.args[0] for item in swapped}
        for item in turned:
            sources[item] = module.graph.call_function(aten.transpose.int, (item, 0, 1))
            sources[item].meta["val"] = item.meta["val"].transpose(0, 1)
        args, kwargs = map_arg(arguments, lambda item: sources.get(item, item))
        made = module.graph.call_function(node.target, args, kwargs)  # type: ignore[arg-type]
        made.meta = dict(node.meta)
        if not turns_back:
            return made
        made.meta["val"] = node.meta["val"].transpose(0, 1)
        back = module.graph.call_function(aten.transpose.int, (made, 0, 1))
        back.meta = dict(node.meta)
    return back


def _arguments(node: Node, rank: int = 0) -> Arguments:
    """Return the arguments of a call; along the other of the first two dimensions for a rank."""
    schema = overload(node.target)._schema
    args, kwargs = list[Argument](), Record()
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


def _value(node: object) -> Tensor | None:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return value if isinstance(value, Tensor) else None


def _rank(node: object) -> int:
    value = _value(node)
    return 0 if value is None else value.dim()


def _is_plain(node: Node) -> bool:
    """Return whether a call gives one tensor, and does not only move elements."""
    return (
        node.op == "call_function"
        and isinstance(node.target, torch._ops.OpOverload)
        and _rank(node) >= 1
        and node.target is not aten.transpose.int
    )


def _leads(node: object) -> bool:
    """Return whether the batch is the first dimension, and no other."""
    value = _value(node)
    if value is None:
        return False
    counted = [isinstance(size, torch.SymInt) for size in value.shape]
    return counted == [True, *[False] * (value.dim() - 1)]


def _is_constant(node: Node) -> bool:
    return node.op == "get_attr" or (
        node.op == "call_function" and all(_is_constant(item) for item in node.all_input_nodes)
    )


def _is_alike(node: Node, arguments: Arguments, turned: Sequence[Node]) -> bool | None:
    """Return whether a call of transposed values gives the transposed result of the node.

    It is tried on random values. False where it gives the result as it is, which has no longer both
    dimensions, and None where it gives another one.

    Args:
        node: the call.
        arguments: of the other call.
        turned: the operands that are transposed.
    """
    values: dict[Node, Tensor] = {}
    generator = torch.Generator().manual_seed(0)
    for item in node.all_input_nodes:
        value = item.meta["val"]
        shape = [_ROWS if isinstance(size, torch.SymInt) else size for size in value.shape]
        if torch.Size(shape).numel() > _MOST_ELEMENTS:
            return None
        random = torch.rand(shape, generator=generator, dtype=torch.float64)
        values[item] = random if value.is_floating_point() else (random * 3).to(value.dtype)

    def compute(known: dict[Node, Tensor], arguments: Arguments) -> object:
        args, kwargs = map_arg(arguments, known.__getitem__)
        return node.target(*args, **kwargs)  # type: ignore[operator]

    moved = {item: values[item].transpose(0, 1) for item in turned}
    try:
        expected = compute(values, (node.args, node.kwargs))
        found = compute({**values, **moved}, arguments)
    except (RuntimeError, IndexError, ValueError, TypeError):
        return None
    if not isinstance(expected, Tensor) or not isinstance(found, Tensor):
        return None
    if found.dim() > 1 and _is_same(expected, found.transpose(0, 1)):
        return True
    return False if _leads(node) and _is_same(expected, found) else None


def _is_same(expected: Tensor, found: Tensor) -> bool:
    return expected.shape == found.shape and torch.allclose(
        expected.double(), found.double(), rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True
    )
