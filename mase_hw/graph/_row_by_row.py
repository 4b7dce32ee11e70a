"""What computes alike in either order of the first two dimensions, such as layers and norms.

Behind a transposition that moves the batch from the first dimension, such a call is made before it
instead. Whether a call is one is tried on random values: no list of operators is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

_aten = torch.ops.aten
_ROWS = 5
_MOST_ELEMENTS = 1 << 22
_TOLERANCE = 1e-9


def moved_before(module: GraphModule, node: Node, swaps: Callable[[Any], bool]) -> Node | None:
    """Return what replaces a call behind transpositions; None where its rows are not alone.

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
    if not _is_alike(node, swapped, turned):
        return None
    with module.graph.inserting_before(node):
        sources: dict[Node, Any] = {item: item.args[0] for item in swapped}
        for item in turned:
            sources[item] = module.graph.call_function(_aten.transpose.int, (item, 0, 1))
            sources[item].meta["val"] = item.meta["val"].transpose(0, 1)
        args, kwargs = map_arg((node.args, node.kwargs), lambda item: sources.get(item, item))
        made = module.graph.call_function(node.target, args, kwargs)  # type: ignore[arg-type]
        made.meta = {**node.meta, "val": node.meta["val"].transpose(0, 1)}
        back = module.graph.call_function(_aten.transpose.int, (made, 0, 1))
        back.meta = dict(node.meta)
    return back


def _value(node: Any) -> Tensor | None:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return value if isinstance(value, Tensor) else None


def _rank(node: Any) -> int:
    value = _value(node)
    return 0 if value is None else value.dim()


def _is_plain(node: Node) -> bool:
    """Return whether a call gives one tensor, and does not only move elements."""
    return (
        node.op == "call_function"
        and isinstance(node.target, torch._ops.OpOverload)
        and _rank(node) >= 2
        and node.target is not _aten.transpose.int
    )


def _leads(node: Any) -> bool:
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


def _is_alike(node: Node, swapped: list[Node], turned: list[Node]) -> bool:
    """Return whether a call of random values is the transposed call of transposed ones."""
    values: dict[Node, Tensor] = {}
    generator = torch.Generator().manual_seed(0)
    for item in node.all_input_nodes:
        value = item.meta["val"]
        shape = [_ROWS if isinstance(size, torch.SymInt) else size for size in value.shape]
        if torch.Size(shape).numel() > _MOST_ELEMENTS:
            return False
        random = torch.rand(shape, generator=generator, dtype=torch.float64)
        values[item] = random if value.is_floating_point() else (random * 3).to(value.dtype)

    def compute(known: dict[Node, Tensor]) -> Any:
        args, kwargs = map_arg((node.args, node.kwargs), known.__getitem__)
        return node.target(*args, **kwargs)  # type: ignore[operator]

    moved = {item: value.transpose(0, 1) for item, value in values.items() if item in swapped}
    moved |= {item: value.transpose(0, 1) for item, value in values.items() if item in turned}
    try:
        expected, found = compute(values), compute({**values, **moved})
    except (RuntimeError, IndexError, ValueError, TypeError):
        return False
    if not isinstance(expected, Tensor) or not isinstance(found, Tensor):
        return False
    back = found.transpose(0, 1)
    return expected.shape == back.shape and torch.allclose(
        expected.double(), back.double(), rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True
    )
