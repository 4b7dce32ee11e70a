"""Conflict-free plans for a banked buffer that sends a tensor's elements in another order.

Every element is written once and read once. Writes of one beat, and reads of one beat, must go to
different banks. With beats as the nodes of a bipartite multigraph and elements as its edges, a
bank assignment is an edge colouring, and as many colours as the larger degree always suffice
(Koenig 1916), so `max(lanes in, lanes out)` banks carry one beat per cycle on both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class ReorderPlan:
    """Tables of the buffer.

    Attributes:
        banks: number of banks.
        depth: words of one bank for one tensor.
        writes: for each beat in, for each bank, the lane written to it, or -1.
        reads: for each beat out, for each bank, the address read.
        selects: for each beat out, for each lane, the bank it takes.
        needs: for each beat out, the beats in that must have been written before.
    """

    banks: int
    depth: int
    writes: Tensor
    reads: Tensor
    selects: Tensor
    needs: Tensor


def is_wire(beats_in: Tensor, beats_out: Tensor) -> bool:
    """Return true when both orders carry the same element in every lane that matters."""
    if beats_in.shape != beats_out.shape:
        return False
    return bool(((beats_in == beats_out) | (beats_out < 0)).all())


def plan_reorder(beats_in: Tensor, beats_out: Tensor) -> ReorderPlan:
    """Return the plan from one order of elements to another.

    Args:
        beats_in: int64 `[beats in, lanes in]`, the element that enters in each lane, -1 for none.
        beats_out: int64 `[beats out, lanes out]`, likewise; each element at most once.
    """
    banks = max(beats_in.shape[1], beats_out.shape[1])
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
    needs = torch.zeros(len(beats_out), dtype=torch.int64)
    filled = [0] * banks
    for (beat_in, lane_in, beat_out, lane_out), bank in zip(edges, colours, strict=True):
        writes[beat_in, bank] = lane_in
        reads[beat_out, bank] = filled[bank]
        selects[beat_out, lane_out] = bank
        needs[beat_out] = max(int(needs[beat_out]), beat_in + 1)
        filled[bank] += 1
    return ReorderPlan(banks, max(filled), writes, reads, selects, needs)


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
