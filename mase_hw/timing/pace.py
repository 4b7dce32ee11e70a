"""Inferences that follow each other at an interval, each moving as the one before it did.

What moves in an inference depends on what comes in the same one, and on the beats before that may
still fill its cells, which are of so many inferences and no more. Where that many have moved alike,
and all that comes later comes alike, all later ones move alike, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mase_hw.geometry.beats import Cycles

# Inferences before those that must move alike: the first, which meets idle cells, and the next.
SETTLED = 2


@dataclass(frozen=True)
class Pace:
    """Inferences of which each, from the third on, comes as the one before it.

    Attributes:
        inferences: how many there are.
        interval: cycles between them.
    """

    inferences: int
    interval: int

    @classmethod
    def of(cls, times: Sequence[Cycles], inferences: int) -> Pace | None:
        """Return the pace that streams have in common; None where they have none."""
        if inferences <= SETTLED or times[0].size % inferences:
            return None
        last, before = (times[0].reshape(inferences, -1)[-number, 0] for number in (1, 2))
        found = cls(inferences, int(last - before))
        return found if all(found.is_kept(inferences, item) for item in times) else None

    def first(self, some: int, times: Cycles) -> Cycles:
        """Return the times of the first inferences of a stream."""
        return times[: times.size // self.inferences * some]

    def is_kept(self, some: int, times: Cycles) -> bool:
        """True if so many inferences of a stream follow each other alike, all as long."""
        if times.size % some:
            return False
        each = times.reshape(some, -1)
        return bool((each[SETTLED:] - each[SETTLED - 1 : -1] == self.interval).all())

    def go_on(self, some: int, times: Cycles) -> Cycles:
        """Return the times of all inferences of a stream, given those of the first."""
        return repeated(times, times.size // some, self.interval, self.inferences)


def repeated(times: Cycles, beats: int, interval: int, inferences: int) -> Cycles:
    """Return times of so many inferences, of which the last ones come at the interval."""
    known = times.reshape(-1, beats)
    more = inferences - len(known)
    if more <= 0:
        return times[: inferences * beats]
    later = known[-1] + interval * np.arange(1, more + 1)[:, None]
    return np.concatenate([known, later]).reshape(-1)
