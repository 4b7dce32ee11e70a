"""When some beats of a long stream move, and an estimate of when those between move."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from mase_hw.geometry.beats import Cycles

# Beats of a tensor whose times are known where they are sampled.
SAMPLES = 1024
# Cycles that floats may be above a whole number.
ROUNDED = 1e-6


@lru_cache(maxsize=4096)
def sampled(beats: int) -> Cycles:
    """Return the sampled beats of a tensor, spread evenly, the first and the last among them."""
    if beats <= SAMPLES:
        return np.arange(beats)
    return (np.arange(SAMPLES) * (beats - 1) + SAMPLES - 2) // (SAMPLES - 1)


@dataclass(frozen=True)
class Curve:
    """When beats of a stream move.

    Attributes:
        beats: beats of one inference.
        known: those of them whose times are known, ascending.
        times: their cycles, inference after inference.
    """

    beats: int
    known: Cycles
    times: Cycles

    @classmethod
    def of(cls, beats: int, times: Cycles) -> Curve:
        """Return the curve of the sampled beats of a tensor."""
        return cls(beats, sampled(beats), times)

    @property
    def inferences(self) -> int:
        """How many inferences it has."""
        return self.times.size // self.known.size

    @cached_property
    def places(self) -> Cycles:
        """The beats whose times are known, of all inferences."""
        return self._of_all(self.known)

    def _of_all(self, beats: Cycles) -> Cycles:
        """Return beats of one inference in all inferences."""
        places: Cycles = (np.arange(self.inferences)[:, None] * self.beats + beats).reshape(-1)
        return places

    def at(self, beats: Cycles) -> Cycles:
        """Return when beats of an inference move, for every inference.

        Negative ones are beats of the inference before, and move at -1 before the first.
        Between two known ones they go on at the pace of those before, and wait, if at all, behind
        what is asked for: that is what the last beat of a row or a token is.
        """
        places, times, asked = self.places, self.times, self._of_all(beats)
        moves = np.interp(asked, places, times)
        if places.size > 1:
            pace = np.diff(times) / np.diff(places)
            before = np.maximum(np.searchsorted(places, asked, side="right") - 1, 0)
            steady = times[before] + pace[np.maximum(before - 1, 0)] * (asked - places[before])
            moves = np.minimum(moves, steady)
        return np.where(asked < 0, -1, np.ceil(moves - ROUNDED).astype(np.int64))

    def come_by(self, times: Cycles) -> Cycles:
        """Return how many beats have moved in a cycle, at most."""
        after = np.minimum(np.searchsorted(self.times, times, side="right"), self.times.size - 1)
        count: Cycles = self.places[after] + (self.times[after] <= times)
        return count

    def spaced(self, step: float = 1.0) -> Curve:
        """Return the beats at least `step` cycles apart."""
        order = np.ceil(self.places * step).astype(np.int64)
        return Curve(self.beats, self.known, np.maximum.accumulate(self.times - order) + order)
