"""Trees of queues behind a fork: what several consumers wait for is stored once."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from torch.fx import Node

from mase_hw.geometry.beats import Cycles

Edge = tuple[Node, str]
# An operand, or None for a queue that only others follow; what it follows; its depth in beats.
Late = tuple[Edge | None, int, int]


def queues_behind(
    taken: Mapping[Edge, Cycles],
    left: Cycles,
    waiting: Callable[[Cycles, Cycles], int],
    passing: int,
) -> list[Late]:
    """Return which operands follow which queues, and how deep those are.

    Each follows the last queue whose beats it takes later than another does. What that other takes
    at its latest, because it has no more room, comes too late for a queue behind it: then both
    follow a queue of their own behind one that their beats leave earlier.

    Args:
        taken: when each operand takes its beats.
        left: when they have left the fork.
        waiting: returns the most beats that have come and are not yet taken, given when they do.
        passing: cycles from one queue to the next; 0 where times are not known to the cycle.

    Returns:
        Operand, number of the queue that it follows, from 1, or 0 for the fork, and depth; at a
        depth of 1 it takes its beats there.
    """
    split = set[Edge]()
    while True:
        found, beside = _tree(taken, left, waiting, passing, split)
        if beside is None:
            return found
        split.add(beside)


def _tree(
    taken: Mapping[Edge, Cycles],
    left: Cycles,
    waiting: Callable[[Cycles, Cycles], int],
    passing: int,
    split: set[Edge],
) -> tuple[list[Late], Edge | None]:
    """Return the queues, or the operand that must leave room for another one behind its queue."""
    found, gone = list[Late](), [left]
    queued: list[Edge | None] = [None]

    def follow(edge: Edge | None, times: Cycles, place: int) -> int:
        """Return the place behind it: that of its queue, or the same where none is needed."""
        depth = waiting(gone[place], times)
        if depth > 1 or (place and edge):
            found.append((edge, place, depth))
        if depth <= 1:
            return place
        gone.append(times)
        queued.append(edge)
        return len(gone) - 1

    for edge in sorted(taken, key=lambda edge: int(taken[edge].sum())):
        times = taken[edge]
        places = [place for place, item in enumerate(gone) if (item <= times).all()]
        place = max(
            (place for place in places if _serves(gone[place], times, place, waiting, passing)),
            # What takes some before they have gone to what gets no queue takes them at the fork.
            default=0,
        )
        best = max(places, default=0)
        before = queued[best]
        if place < best and before is not None and before not in split:
            return found, before
        if edge in split:
            # The first ones, which it need not take yet, may come as late as they do.
            soonest, steady = gone[place] + passing, slice(times.size // 2, None)
            if (soonest[steady] <= times[steady] - passing).all():
                place = follow(None, np.maximum(times - passing, soonest), place)
        follow(edge, times, place)
    return found, None


def _serves(
    gone: Cycles,
    times: Cycles,
    place: int,
    waiting: Callable[[Cycles, Cycles], int],
    passing: int,
) -> bool:
    """Return whether beats that leave a queue are there when they are taken behind another one."""
    return place == 0 or bool((gone + passing <= times).all()) or waiting(gone, times) == 1
