"""Conflict-free plans for a banked buffer that sends a tensor's elements in another order.

Every element is written once and read once. Writes of one beat, and reads of one beat, must go to
different banks. With beats as the nodes of a bipartite multigraph and elements as its edges, a
bank assignment is an edge colouring, and as many colours as the larger degree always suffice
(Koenig 1916), so `max(lanes in, lanes out)` banks carry one beat per cycle on both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import torch
from torch import Tensor

from mase_hw.geometry.tensor import TensorSpec

# Beats of a part of a tensor that is buffered by itself, at least, on one side.
LEAST_BEATS = 16


@dataclass(frozen=True)
class ReorderPlan:
    """Tables of the buffer.

    Attributes:
        banks: number of banks.
        depth: words of one bank for one tensor.
        writes: for each beat in, for each bank, the lane written to it, or -1.
        reads: for each beat out, for each bank, the address read.
        selects: for each beat out, for each lane, the bank it takes.
    """

    banks: int
    depth: int
    writes: Tensor
    reads: Tensor
    selects: Tensor


class Reordering:
    """One order of elements in a stream, and another.

    Args:
        beats_in: int64 `[beats in, lanes in]`, the element that enters in each lane, -1 for none.
        beats_out: int64 `[beats out, lanes out]`, likewise; an element at most once, but for beats
            that come again.
    """

    def __init__(self, beats_in: Tensor, beats_out: Tensor) -> None:
        self.beats_in, self.beats_out = beats_in, beats_out

    @classmethod
    def of(cls, data: TensorSpec, result: TensorSpec, moved: tuple[int, ...]) -> Reordering:
        """Return the orders of a tensor and of its elements when they have moved.

        Args:
            data: the tensor.
            result: what they become.
            moved: for each element of the result, in torch's order, the number of the element.
        """
        # Where elements lie, whatever their format.
        return cls._of(replace(data, format=None), replace(result, format=None), moved)

    @classmethod
    @lru_cache(maxsize=64)
    def _of(cls, data: TensorSpec, result: TensorSpec, moved: tuple[int, ...]) -> Reordering:
        entering = data.to_beats(torch.arange(data.elements), fill=-1)
        return cls(entering, result.to_beats(torch.tensor(moved), fill=-1))

    @cached_property
    def is_wire(self) -> bool:
        """Whether both orders carry the same element in every lane that matters."""
        if self.beats_in.shape != self.beats_out.shape:
            return False
        return bool(((self.beats_in == self.beats_out) | (self.beats_out < 0)).all())

    @cached_property
    def needs(self) -> Tensor:
        """For each beat out, the beats in that must have come before; int64 `[beats out]`."""
        entered = torch.zeros(int(self.beats_in.max()) + 2, dtype=torch.int64)
        beats = torch.arange(1, len(self.beats_in) + 1)[:, None].expand_as(self.beats_in)
        # What stands for no element, -1, comes last and takes part in nothing.
        entered[self.beats_in] = beats
        entered[-1] = 0
        return entered[self.beats_out].amax(1)

    @cached_property
    def last(self) -> tuple[int, ...]:
        """For each beat out, the last beat in that it needs, the first where it needs none."""
        return tuple((self.needs - 1).clamp(min=0).tolist())

    @cached_property
    def parts(self) -> tuple[Reordering, int]:
        """The order of the shortest part of a tensor that all others are like, and their number.

        A part has at least `LEAST_BEATS`, so that a buffer of two parts never waits for itself.
        """
        beats = len(self.beats_in), len(self.beats_out)
        for count in range(max(1, max(beats) // LEAST_BEATS), 1, -1):
            if beats[0] % count == beats[1] % count == 0:
                first = [_first_part(order, count) for order in (self.beats_in, self.beats_out)]
                if first[0] is not None and first[1] is not None:
                    return Reordering(first[0], first[1]), count
        return self, 1

    @cached_property
    def plan(self) -> ReorderPlan:
        """The plan from one to the other."""
        return plan_reorder(self.beats_in, self.beats_out)


def _first_part(order: Tensor, count: int) -> Tensor | None:
    parts = order.reshape(count, -1, order.shape[1])
    first = parts[0]
    step = (first.max() + 1) * torch.arange(count)[:, None, None]
    return first if torch.equal(parts, torch.where(first < 0, first, first + step)) else None


def plan_reorder(beats_in: Tensor, beats_out: Tensor) -> ReorderPlan:
    """Return the plan from one order of elements to another.

    Args:
        beats_in: int64 `[beats in, lanes in]`, the element that enters in each lane, -1 for none.
        beats_out: int64 `[beats out, lanes out]`, likewise; an element at most once, but for beats
            that come again, which are read as the first time.
    """
    once, again = torch.unique(beats_out, dim=0, return_inverse=True)
    if len(once) < len(beats_out):
        plan = plan_reorder(beats_in, once)
        return replace(plan, reads=plan.reads[again], selects=plan.selects[again])
    banks = max(beats_in.shape[1], beats_out.shape[1])
    if banks == 1:
        return _plan_of_one(beats_in.flatten(), beats_out.flatten())
    place = {
        element: (beat, lane)
        for beat, row in enumerate(beats_in.tolist())
        for lane, element in enumerate(row)
        if element >= 0
    }
    edges = [
        (*place[element], beat, lane)
        for beat, row in enumerate(beats_out.tolist())
        for lane, element in enumerate(row)
        if element >= 0
    ]
    edges.sort()
    colours = colour_edges([(edge[0], edge[2]) for edge in edges], banks)
    writes = torch.full((len(beats_in), banks), -1)
    reads = torch.zeros((len(beats_out), banks), dtype=torch.int64)
    selects = torch.zeros(beats_out.shape, dtype=torch.int64)
    filled = [0] * banks
    for (beat_in, lane_in, beat_out, lane_out), bank in zip(edges, colours, strict=True):
        writes[beat_in, bank] = lane_in
        reads[beat_out, bank] = filled[bank]
        selects[beat_out, lane_out] = bank
        filled[bank] += 1
    return ReorderPlan(banks, max(filled), writes, reads, selects)


def _plan_of_one(entering: Tensor, leaving: Tensor) -> ReorderPlan:
    """Return the plan of one bank: elements lie as they enter, those that never leave nowhere."""
    size = int(torch.cat([entering, leaving]).max()) + 1
    leaves = torch.zeros(size + 1, dtype=torch.bool)
    leaves[leaving] = True
    leaves[-1] = False
    kept = leaves[entering]
    address = torch.zeros(size + 1, dtype=torch.int64)
    address[entering[kept]] = torch.arange(int(kept.sum()))
    reads = torch.where(leaving < 0, 0, address[leaving])
    writes = kept.to(torch.int64) - 1
    none = torch.zeros_like(leaving)[:, None]
    return ReorderPlan(1, int(kept.sum()), writes[:, None], reads[:, None], none)


def colour_edges(edges: Sequence[tuple[int, int]], colours: int) -> list[int]:
    """Colour the edges of a bipartite multigraph so that no node sees a colour twice.

    Each edge takes a colour free at both ends; where there is none, the path of two alternating
    colours that starts at one end is exchanged, which frees one (Koenig's proof).
    """
    left: dict[int, dict[int, int]] = {}
    right: dict[int, dict[int, int]] = {}
    result = [-1] * len(edges)
    for index, (u, v) in enumerate(edges):
        at_u, at_v = left.setdefault(u, {}), right.setdefault(v, {})
        free_u = next(c for c in range(colours) if c not in at_u)
        free_v = next(c for c in range(colours) if c not in at_v)
        if free_u in at_v:
            _exchange(edges, result, (left, right), v, free_u, free_v)
        result[index] = free_u
        at_u[free_u] = at_v[free_u] = index
    return result


def _exchange(
    edges: Sequence[tuple[int, int]],
    result: list[int],
    sides: tuple[dict[int, dict[int, int]], dict[int, dict[int, int]]],
    start: int,
    first: int,
    second: int,
) -> None:
    """Swap two colours along the path from node `start` of the right side."""
    path, node, side, colour = [], start, 1, first
    while colour in sides[side].get(node, {}):
        index = sides[side][node][colour]
        path.append(index)
        node, side = edges[index][1 - side], 1 - side
        colour = second if colour == first else first
    for index in path:
        for which in (0, 1):
            sides[which][edges[index][which]].pop(result[index], None)
    for index in path:
        result[index] = second if result[index] == first else first
        for which in (0, 1):
            sides[which][edges[index][which]][result[index]] = index
