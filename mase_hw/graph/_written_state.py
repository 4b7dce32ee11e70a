"""Buffers that a model writes in every inference: caches of entries, and frames of a stream.

Torch's functions end with `copy_(buffer, next)`. What `next` is decides what the buffer is: a
memory of which one place is written, or elements of this inference's tensors and earlier ones'.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from mase_hw._aten import aten, overload
from mase_hw._kinds import Argument
from mase_hw.errors import CaptureError
from mase_hw.graph._rewriter import Rewriter, is_dynamic, operands_of, shape_of
from mase_hw.graph.rebuild import get_tensor
from mase_hw.graph.source import location_of_trace
from mase_hw.ops import operators, torch_target

_PUTS = {aten.index_copy.default, aten.index_put.default}
_ADVICE = "take the state as an input and return the next one: forward(x, state) -> y, next"


def raise_written_state(module: GraphModule) -> None:
    """Replace, in place, buffers that are written by operators that keep a state.

    Raises:
        CaptureError: for what is no such state, naming buffer and line.
    """
    operators()  # registers our own torch operators
    rewriter = Rewriter(module)
    for node in list(module.graph.nodes):
        if node.target is not aten.copy_.default or operands_of(node)[0].op != "get_attr":
            continue
        state, following = operands_of(node)
        node.replace_all_uses_with(following)
        module.graph.erase_node(node)
        while following.target in (aten.alias.default, aten.clone.default):
            following = operands_of(following)[0]
        if following is state:
            continue
        with rewriter.before(following):
            if following.target in _PUTS and _written_place(following):
                _raise_cache(rewriter, state, following)
            else:
                _Stream(rewriter, state, following).replace()
    module.graph.eliminate_dead_code()


def _refused(node: Node, state: Node, reason: str) -> CaptureError:
    return CaptureError(
        f"{node.name} ({state.target}) at {location_of_trace(node.stack_trace)} {reason}"
    )


def _written_place(node: Node) -> tuple[int, Argument, Argument] | None:
    """Return dimension, position and entry of a write of one place; None for another one."""
    if node.target is aten.index_copy.default:
        _, dim, position, entry = operands_of(node)
        return int(dim), position, entry
    _, indices, entry, *accumulate = operands_of(node)
    places = [(dim, item) for dim, item in enumerate(indices) if item is not None]
    return (*places[0], entry) if len(places) == 1 and not any(accumulate) else None


def _raise_cache(rewriter: Rewriter, base: Node, node: Node) -> None:
    written = _written_place(node)
    assert written is not None
    dim, position, entry = written
    state = get_tensor(rewriter.module, base.target)
    dim %= state.dim()
    if reason := _problem(node, base, state, dim, position):
        raise _refused(node, base, reason)
    places = state.shape[dim]
    # Places lie along the last dimension but one: what follows is one entry.
    rows = [*state.shape[:dim], 1, prod(state.shape[dim + 1 :])]
    call = rewriter.call
    row = call(aten.reshape.default, entry, rows)
    kept = call(torch_target("mase.cache.default"), row, position, dim, places)
    rewriter.replace(node, call(aten.reshape.default, kept, list(state.shape)))


def _problem(node: Node, base: Node, state: Tensor, dim: int, position: Node) -> str | None:
    """Return why a write of a place is none of a memory that hardware has."""
    places = position.meta["val"].numel()
    others = [user for user in base.users if user is not node]
    if operands_of(node)[0] is not base:
        return f"writes to a cache that {node.args[0]} writes again: a step writes one place"
    if not isinstance(places, int) or places != 1:
        return f"writes {places} places at a time; a step writes one, at a position of one element"
    if bool(state.any()):
        return "has a cache that is not empty: hardware begins with zeros; reset it before"
    if dim == state.dim() - 1:
        return "writes along the last dimension; an entry lies along it"
    if dim > 0 and state.shape[0] != 1:
        sequences = f"has a cache of {state.shape[0]} sequences"
        return f"{sequences}; a design holds one: make it for a batch of 1"
    if others:
        return f"writes to a cache that {others[0]} has read before: write first, then read"
    return None


class _Stream:
    """A buffer of elements of this inference's tensors and of earlier ones'.

    Where each element of the next state comes from is seen by computing it of numbers that count
    elements: first those of the state, then those of what does not depend on it.
    """

    def __init__(self, rewriter: Rewriter, state: Node, following: Node) -> None:
        self._rewriter, self._state, self._next = rewriter, state, following
        self._depends = {state}
        for node in rewriter.graph.nodes:
            if any(item in self._depends for item in node.all_input_nodes):
                self._depends.add(node)
        self._order: list[Node] = []
        self._sources: list[Node] = []
        self._visit(following)
        self._delayed: dict[tuple[Node, int, int, int], Node] = {}

    def _visit(self, node: Node) -> None:
        if node in self._order or node in self._sources:
            return
        if node not in self._depends:
            self._sources.append(node)
            return
        for item in node.all_input_nodes:
            self._visit(item)
        self._order.append(node)

    def replace(self) -> None:
        """Put parts of this inference's tensors, delayed, in the place of the state."""
        state = get_tensor(self._rewriter.module, self._state.target)
        if bool(state.any()):
            raise self._refusal("holds other numbers than zeros: hardware begins with zeros")
        if any(is_dynamic(size) for node in self._sources for size in shape_of(node)):
            raise self._refusal("is one state, whatever the batch: a design has one sequence")
        count = state.numel()
        places = self._next_places(count)
        origins, delays = places, torch.ones_like(places)
        for _ in range(count):
            waits = origins < count
            delays += waits
            origins = torch.where(waits, places[origins * waits], origins)
        if bool((origins < count).any()):
            raise self._refusal(f"keeps elements for ever; {_ADVICE}")
        dim, pieces = self._parts(origins.reshape(state.shape), delays.reshape(state.shape))
        call = self._rewriter.call
        with self._rewriter.before(self._state.next):
            whole = [self._piece(dim, *piece) for piece in pieces]
            before = whole[0] if len(whole) == 1 else call(aten.cat.default, whole, dim)
        self._state.replace_all_uses_with(before)
        _sort(self._rewriter.graph)

    def _refusal(self, reason: str) -> CaptureError:
        return _refused(self._next, self._state, reason)

    def _next_places(self, count: int) -> Tensor:
        sizes = [count, *(node.meta["val"].numel() for node in self._sources)]
        numbers = torch.arange(sum(sizes), dtype=torch.float64)
        other = torch.rand(numbers.shape, generator=torch.Generator().manual_seed(0)).double()
        try:
            places = self._computed(numbers, sizes).flatten().long()
            moved = torch.equal(self._computed(other, sizes).flatten(), other[places])
        except (RuntimeError, IndexError, ValueError, TypeError):
            moved = False
        if not moved:
            raise self._refusal(f"computes with the state of the inference before; {_ADVICE}")
        return places

    def _computed(self, numbers: Tensor, sizes: list[int]) -> Tensor:
        nodes = (self._state, *self._sources)
        values: dict[Node, Argument] = {
            node: part.reshape(node.meta["val"].shape)
            for node, part in zip(nodes, torch.split(numbers, sizes), strict=True)
        }
        for node in self._order:
            if node not in values:
                args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
                values[node] = overload(node.target)(*args, **kwargs)
        following: Tensor = values[self._next]
        return following

    def _parts(
        self, origins: Tensor, delays: Tensor
    ) -> tuple[int, list[tuple[Node, int, int, int]]]:
        """Return a dimension, and along it: tensor, delay, where a part begins and ends in it."""
        for dim in range(origins.dim()):
            slabs = [
                self._slab(dim, *pair)
                for pair in zip(origins.unbind(dim), delays.unbind(dim), strict=True)
            ]
            taken = [slab for slab in slabs if slab is not None]
            if len(taken) == len(slabs):
                ends = [
                    place
                    for place, (left, right) in enumerate(pairwise(taken), 1)
                    if right != (*left[:2], left[2] + 1)
                ]
                return dim, [
                    (*taken[start][:2], taken[start][2], taken[stop - 1][2] + 1)
                    for start, stop in pairwise([0, *ends, len(taken)])
                ]
        raise self._refusal(f"moves elements along several dimensions; {_ADVICE}")

    def _slab(self, dim: int, origins: Tensor, delays: Tensor) -> tuple[Node, int, int] | None:
        """Return tensor, delay and place of all elements at one place; None for a mixture."""
        first = self._state.meta["val"].numel()
        for node in self._sources:
            value = node.meta["val"]
            numbers = torch.arange(first, first + value.numel()).reshape(value.shape)
            first += value.numel()
            if numbers.shape == origins.shape:
                # A place by itself, as `x[:, :, 0]`.
                numbers, node = numbers.unsqueeze(dim), self._unsqueezed(node, dim)
            for place in range(numbers.shape[dim] if numbers.dim() > dim else 0):
                if torch.equal(numbers.select(dim, place), origins):
                    delay = int(delays.flatten()[0])
                    return (node, delay, place) if bool((delays == delay).all()) else None
        return None

    def _unsqueezed(self, node: Node, dim: int) -> Node:
        key = (node, -1, dim, 0)
        if key not in self._delayed:
            with self._rewriter.before(self._next):
                self._delayed[key] = self._rewriter.call(aten.unsqueeze.default, node, dim)
        return self._delayed[key]

    def _piece(self, dim: int, node: Node, delay: int, start: int, stop: int) -> Node:
        """Write a part of a tensor, as it was so many inferences before."""
        key = (node, delay, start, stop)
        if key not in self._delayed:
            call = self._rewriter.call
            if delay:
                before = self._piece(dim, node, delay - 1, start, stop)
                self._delayed[key] = call(torch_target("mase.previous.default"), before)
            elif (start, stop) == (0, shape_of(node)[dim]):
                self._delayed[key] = node
            else:
                self._delayed[key] = call(aten.slice.Tensor, node, dim, start, stop)
        return self._delayed[key]


def _sort(graph: Graph) -> None:
    sorted_nodes = set[Node]()
    output = graph.output_node()
    for node in list(graph.nodes):
        waiting = [node] if node is not output else []
        while waiting:
            missing = [item for item in waiting[-1].all_input_nodes if item not in sorted_nodes]
            if not missing:
                item = waiting.pop()
                if item not in sorted_nodes:
                    sorted_nodes.add(item)
                    output.prepend(item)
            waiting += missing
