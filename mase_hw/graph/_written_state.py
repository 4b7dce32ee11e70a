"""Buffers that a model writes one place of in every inference, as caches of keys and values."""

from __future__ import annotations

from math import prod

from torch import Tensor
from torch.fx import GraphModule, Node

from mase_hw._aten import aten
from mase_hw._kinds import Argument
from mase_hw.errors import CaptureError
from mase_hw.graph.rebuild import get_tensor
from mase_hw.graph.source import location_of_trace
from mase_hw.ops import operators, torch_target


def raise_written_state(module: GraphModule) -> None:
    """Replace, in place, every write of one place of a buffer by an operator that keeps a state.

    `buffer.index_copy_(dim, position, entry)` and `buffer[..., position] = entry` are such, and
    `buffer.copy_(buffer.index_copy(dim, position, entry))`. Who reads the buffer afterwards, reads
    the result.

    Raises:
        CaptureError: for what is no such state: a buffer that is not zero, that is written twice or
            read before, several places or sequences.
    """
    operators()  # registers our own torch operators
    for node in list(module.graph.nodes):
        base = node.args[0] if node.args else None
        if node.op != "call_function" or not isinstance(base, Node) or base.op != "get_attr":
            continue
        written = _written_here(node, base) if node.target is aten.copy_.default else node
        found = None if written is None else _write(written, written is node)
        if written is None or found is None:
            continue
        if written is not node:
            node.replace_all_uses_with(written)
            module.graph.erase_node(node)
        _replace(module, written, base, *found)
    module.graph.eliminate_dead_code()


def _written_here(node: Node, base: Node) -> Node | None:
    """Return what writes a place out of place, where a node copies that to the buffer itself."""
    source: Argument = node.args[1]
    order = {item: number for number, item in enumerate(node.graph.nodes)}
    if source.op != "call_function" or source.args[0] is not base:
        return None
    between = [user for user in base.users if order[source] < order[user] < order[node]]
    return None if between else source


def _write(node: Node, in_place: bool) -> tuple[int, Argument, Argument] | None:
    """Return dimension, position and entry of a write of one place; None for another node."""
    copies = (aten.index_copy_.default,) if in_place else (aten.index_copy.default,)
    puts = (aten.index_put_.default,) if in_place else (aten.index_put.default,)
    if node.target in copies:
        _, dim, position, entry = node.args
        return int(dim), position, entry  # type: ignore[arg-type]
    if node.target not in puts or _accumulates(node):
        return None
    indices: Argument = node.args[1]
    given = [(dim, item) for dim, item in enumerate(indices) if item is not None]
    return (*given[0], node.args[2]) if len(given) == 1 else None


def _accumulates(node: Node) -> bool:
    return bool(node.args[3] if len(node.args) > 3 else node.kwargs.get("accumulate", False))


def _replace(
    module: GraphModule, node: Node, base: Node, dim: int, position: Node, entry: Node
) -> None:
    state = get_tensor(module, base.target)
    dim %= state.dim()
    _check(node, base, state, dim, position)
    shape = list(state.shape)
    places, shape[dim] = shape[dim], 1
    # Places lie along the last dimension but one: what follows is one entry.
    rows = [*shape[: dim + 1], prod(shape[dim + 1 :])]
    target = torch_target("mase.cache.default")
    with module.graph.inserting_before(node):
        call, like = module.graph.call_function, _value(entry)
        written = call(aten.reshape.default, (entry, rows))
        kept = call(target, (written, position, dim, places))
        result = call(aten.reshape.default, (kept, list(state.shape)))
    for made, size in ((written, rows), (kept, [*shape[:dim], places, rows[-1]])):
        made.meta = {**node.meta, "val": like.new_empty(size)}
    result.meta = {**node.meta, "val": like.new_empty(state.shape)}
    order = {item: number for number, item in enumerate(module.graph.nodes)}
    base.replace_all_uses_with(result, delete_user_cb=lambda user: order[user] > order[node])
    node.replace_all_uses_with(result)
    module.graph.erase_node(node)


def _check(node: Node, base: Node, state: Tensor, dim: int, position: Node) -> None:
    places = _value(position).numel()
    before, again = _other_uses(node, base)
    what = None
    if not isinstance(places, int) or places != 1:
        what = f"writes {places} places at a time; a step writes one, at a position of one element"
    elif bool(state.any()):
        what = "has a cache that is not empty: hardware begins with zeros; reset it before"
    elif dim == state.dim() - 1:
        what = "writes along the last dimension; an entry lies along it"
    elif dim > 0 and state.shape[0] != 1:
        what = (
            f"has a cache of {state.shape[0]} sequences; a design holds one: make it for a batch "
            "of 1"
        )
    elif before is not None:
        what = f"writes to a cache that {before.name} has read before: write first, then read"
    elif again is not None:
        what = f"writes to a cache that {again.name} writes again: a step writes one place"
    if what is not None:
        raise CaptureError(
            f"{node.name} ({base.target}) at {location_of_trace(node.stack_trace)} {what}"
        )


def _other_uses(node: Node, base: Node) -> tuple[Node | None, Node | None]:
    """Return who reads a buffer before a node writes it, and who writes it afterwards."""
    before, again, written = None, None, False
    shown = {base}
    for item in node.graph.nodes:
        first = item.args[0] if item.args else None
        schema = getattr(item.target, "_schema", None)
        if item is node:
            written = True
            shown.add(node)
        elif first not in shown or schema is None:
            continue
        elif not written:
            before = item
        elif schema.is_mutable:
            again = again or item
        elif schema.arguments[0].alias_info is not None:
            shown.add(item)
    return before, again


def _value(node: Node) -> Tensor:
    found: Tensor = node.meta["val"]
    return found
