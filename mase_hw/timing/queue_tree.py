"""Trees of queues behind a fork: what several consumers wait for is stored once."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from mase_hw.geometry.beats import Cycles
from mase_hw.timing.forks import Edge

# An operand, or None for a queue that only others follow; what it follows; its depth in beats.
Late = tuple[Edge | None, int, int]


def queues_behind(
    consumed: Mapping[Edge, Cycles],
    departures: Cycles,
    occupancy: Callable[[Cycles, Cycles], int],
    passing: int,
) -> list[Late]:
    """Return which operands follow which queues, and how deep those are.

    Each follows the last queue whose beats it consumes later than another does. Where that other
    consumes them as late as it has room for, they come too late for a queue behind it: then both
    follow a queue of their own, behind one that their beats leave earlier.

    Args:
        consumed: when each operand consumes its beats.
        departures: when they depart from the fork.
        occupancy: returns the most beats that have come and are not yet consumed, given
            when they are.
        passing: cycles from one queue to the next; 0 where times are not known to the cycle.

    Returns:
        Operand, number of the queue that it follows, from 1, or 0 for the fork, and depth; at a
        depth of 1 it consumes its beats there.
    """
    split = set[Edge]()
    while True:
        found, beside = _tree(consumed, departures, occupancy, passing, split)
        if beside is None:
            return found
        split.add(beside)


def _tree(
    consumed: Mapping[Edge, Cycles],
    departures: Cycles,
    occupancy: Callable[[Cycles, Cycles], int],
    passing: int,
    split: set[Edge],
) -> tuple[list[Late], Edge | None]:
    """Return the queues, or the operand that must leave room for another one behind its queue."""
    found, departed = list[Late](), [departures]
    queued: list[Edge | None] = [None]

    def follow(edge: Edge | None, times: Cycles, place: int) -> int:
        """Return the place behind it: that of its queue, or the same where none is needed."""
        depth = occupancy(departed[place], times)
        if depth > 1 or (place and edge):
            found.append((edge, place, depth))
        if depth <= 1:
            return place
        departed.append(times)
        queued.append(edge)
        return len(departed) - 1

    for edge in sorted(consumed, key=lambda edge: int(consumed[edge].sum())):
        times = consumed[edge]
        places = [place for place, item in enumerate(departed) if (item <= times).all()]
        place = max(
            (at for at in places if _serves(departed[at], times, at, occupancy, passing)),
            # What consumes some beats before those without a queue do consumes them at the fork.
            default=0,
        )
        best = max(places, default=0)
        before = queued[best]
        if place < best and before is not None and before not in split:
            return found, before
        if edge in split:
            # The first ones, which it need not consume yet, may come as late as they do.
            soonest, steady = departed[place] + passing, slice(times.size // 2, None)
            if (soonest[steady] <= times[steady] - passing).all():
                place = follow(None, np.maximum(times - passing, soonest), place)
        follow(edge, times, place)
    return found, None


def _serves(
    departed: Cycles,
    times: Cycles,
    place: int,
    occupancy: Callable[[Cycles, Cycles], int],
    passing: int,
) -> bool:
    """True if beats that leave a queue come in time for what follows it."""
    return (
        place == 0 or bool((departed + passing <= times).all()) or occupancy(departed, times) == 1
    )
