"""Periodic stretches of a sequence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mase_hw.geometry.beats import Cycles


@dataclass(frozen=True)
class Stretch:
    """Places from `start` to before `stop`, each like the one `period` later.

    Attributes:
        start: the first place.
        stop: behind the last place, the last period included.
        period: places after which the same comes again.
    """

    start: int
    stop: int
    period: int

    @property
    def count(self) -> int:
        """Number of whole periods in the stretch."""
        return (self.stop - self.start) // self.period

    @property
    def gain(self) -> int:
        """Places that are there again, and those of a period before that is nearly alike."""
        return self.count * self.period


def stretches(kinds: Cycles, steps: Cycles) -> Iterator[Stretch]:
    """Yield stretches of at least two periods, those that repeat most first.

    Args:
        kinds: equal for places that are alike.
        steps: what changes by one, up or down, from a period to the next; negative for what has no
            such thing.
    """
    found: list[Stretch] = []
    for period in range(1, kinds.size // 2 + 1):
        same = kinds[period:] == kinds[:-period]
        change = np.abs(steps[period:] - steps[:-period])
        same &= (steps[period:] < 0) | (change == 1)
        edges = np.flatnonzero(np.diff(np.concatenate(([False], same, [False]))))
        for begin, end in edges.reshape(-1, 2).tolist():
            if end - begin >= period:
                found.append(Stretch(begin, end + period, period))
    found.sort(key=lambda item: (-item.gain, item.period, item.start))
    yield from found
