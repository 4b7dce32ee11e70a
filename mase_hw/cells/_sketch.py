"""Times of sampled beats of long streams: exact at the samples, interpolated in between.

A large design moves more beats than fit a memory. What lies between two beats of a stream a
thousandth of a tensor apart then goes on as before, up to a straight line: times follow the motions
of the cells at these beats alone. Where every beat is one of them, times are those of the motions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from mase_hw.cells._motion import Motion
from mase_hw.geometry.beats import Cycles

# Moves of beats in an inference from which on times are known of some beats alone.
MOVES = 20_000_000
# Beats of a tensor whose times are then known.
SAMPLES = 1024
# Cycles that floats may be above a whole number.
ROUNDED = 1e-6


@lru_cache(maxsize=4096)
def sampled(beats: int) -> Cycles:
    """Return the beats of a tensor whose times are known, the first and the last among them."""
    if beats <= SAMPLES:
        return np.arange(beats)
    return (np.arange(SAMPLES) * (beats - 1) + SAMPLES - 2) // (SAMPLES - 1)


@dataclass(frozen=True)
class Curve:
    """When the beats of a stream move.

    Attributes:
        beats: beats of one inference.
        times: cycles of the sampled beats, inference after inference.
    """

    beats: int
    times: Cycles

    @property
    def inferences(self) -> int:
        """How many inferences it has."""
        return self.times.size // sampled(self.beats).size

    @property
    def places(self) -> Cycles:
        """The beats whose times are known."""
        starts = np.arange(self.inferences)[:, None] * self.beats
        places: Cycles = (starts + sampled(self.beats)).reshape(-1)
        return places

    @classmethod
    def even(cls, beats: int, interval: int, inferences: int) -> Curve:
        """Return a stream that comes evenly, an inference every `interval` cycles."""
        curve = cls(beats, np.zeros(inferences * sampled(beats).size, dtype=np.int64))
        return cls(beats, curve.places * interval // beats)

    def at(self, beats: Cycles) -> Cycles:
        """Return when beats of an inference move, for every inference; -1 for what is before it.

        Between two known ones they go on at the pace of those before, and wait, if at all, behind
        what is asked for: that is what the last beat of a row or a token is.
        """
        places, times = self.places, self.times
        starts = np.arange(self.inferences)[:, None] * self.beats
        asked = (starts + beats).reshape(-1)
        moves = np.interp(asked, places, times)
        if places.size > 1:
            pace = np.diff(times) / np.diff(places)
            known = np.maximum(np.searchsorted(places, asked, side="right") - 1, 0)
            steady = times[known] + pace[np.maximum(known - 1, 0)] * (asked - places[known])
            moves = np.minimum(moves, steady)
        found = np.ceil(moves - ROUNDED).astype(np.int64).reshape(self.inferences, -1)
        return np.where(beats < 0, -1, found).reshape(-1)

    def come_by(self, times: Cycles) -> Cycles:
        """Return how many beats have moved in a cycle, at most."""
        after = np.minimum(np.searchsorted(self.times, times, side="right"), self.times.size - 1)
        exact = self.times[after] <= times
        count: Cycles = self.places[after] + exact
        return count

    def spaced(self, step: float = 1.0) -> Curve:
        """Return the beats at least `step` cycles apart."""
        order = np.ceil(self.places * step).astype(np.int64)
        return Curve(self.beats, np.maximum.accumulate(self.times - order) + order)


def stage(motion: Motion, arrivals: Mapping[str, Curve], results: int, step: float = 1.0) -> Curve:
    """Return when results are offered to a consumer that is always ready.

    Args:
        motion: of the stage.
        arrivals: when the beats of each input are offered.
        results: results of one inference.
        step: cycles between results, at least.
    """
    places = sampled(results)
    times = np.zeros((next(iter(arrivals.values())).inferences, places.size), dtype=np.int64)
    for port, curve in arrivals.items():
        needs = motion.needs_of(port, curve.beats, places)
        times = np.maximum(times, curve.spaced().at(needs).reshape(times.shape) + motion.lag)
    return Curve(results, times.reshape(-1)).spaced(step)


def held(
    motion: Motion,
    arrivals: Mapping[str, Curve],
    offered: Curve,
    gone: Curve,
) -> dict[str, Curve]:
    """Return when the beats of each input are taken.

    Args:
        motion: of the stage.
        arrivals: when they are offered.
        offered: when results are offered.
        gone: when results go.
    """
    taken = {}
    for port, curve in arrivals.items():
        places = sampled(curve.beats)
        takers = motion.taker_of(port, places)
        if takers is None:
            together = [other for other in arrivals.values() if other.beats == curve.beats]
            times = np.maximum.reduce([other.times for other in together])
        else:
            times = np.maximum(curve.times, offered.at(takers) - motion.lag)
        # Through a wire a beat moves with its result, elsewhere a place is free a cycle later.
        room = gone.at(motion.room_of(port, curve.beats, places)) + (motion.lag > 0)
        taken[port] = Curve(curve.beats, np.maximum(times, room)).spaced()
    return taken
