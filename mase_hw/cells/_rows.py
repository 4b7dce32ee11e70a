"""Motion of rows that are stored until a value of the whole row is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mase_hw.cells._motion import Arrivals, Motion, Movement, Steps, met, stored
from mase_hw.geometry.beats import Cycles, one_per_cycle
from mase_hw.geometry.growth import Growth


@dataclass(frozen=True)
class Rows(Motion):
    """Beats are stored until their row is whole and its value known, then leave by a pipeline.

    The store (`mase_row_store`) holds as many beats as come until the first of a row has left it,
    so that rows follow each other without gaps.

    Attributes:
        row: beats of a row, of the longest one.
        delay: cycles from a row's last beat to when its first one may leave the store.
        latency: cycles from when a beat leaves the store to when its result is offered.
        growth: of the rows; None where all are equally long.
    """

    row: int
    delay: int
    latency: int
    growth: Growth | None = None

    @property
    def depth(self) -> int:
        """Beats that the store holds."""
        return self.row + self.delay

    def offered(self, arrivals: Arrivals) -> Cycles:
        """A row follows its last beat."""
        come = met(arrivals)
        return one_per_cycle(come[self.needs("", come.size)] + self.delay) + self.latency

    def needs(self, port: str, beats: int) -> Cycles:
        return self.needs_of(port, beats, np.arange(beats))

    def room(self, port: str, beats: int) -> Cycles:
        """What is stored, on its way, or waits."""
        return np.arange(beats) - self.depth - Steps(self.latency).depth

    @property
    def lag(self) -> int:
        """From a row's last beat through store and pipeline."""
        return self.delay + self.latency

    def results(self, beats: int, port: str = "") -> int:
        return beats

    def needs_of(self, port: str, beats: int, results: Cycles) -> Cycles:
        if self.growth is not None:
            return self.growth.end(self.growth.run(results))
        needs: Cycles = (results // self.row + 1) * self.row - 1
        return needs

    def room_of(self, port: str, beats: int, places: Cycles) -> Cycles:
        """What is stored, on its way, or waits."""
        return places - self.depth - Steps(self.latency).depth

    def under_pressure(self, arrivals: Arrivals, departures: Cycles) -> Movement:
        """A beat enters when one has left the store, which waits for room behind it."""
        beats = met(arrivals).size
        needs, room = self.needs("", beats), np.arange(beats) - self.depth
        return stored(arrivals, departures, needs, room, self.latency, delay=self.delay)
