"""Runs of beats that grow: what is sent of a matrix of which row i has its first i + 1 elements.

Scores of causal attention are such a matrix. Its rows are cut into beats of a few elements, so that
as many rows as a beat has elements are equally long, and the rows of all heads between two tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mase_hw.geometry.beats import Cycles


@dataclass(frozen=True)
class Growth:
    """Runs one after another, of which run k has `unit * (1 + k // every)` beats.

    After `runs` of them they begin anew, for as long as beats come: numbers of runs and of beats
    that are given and returned go on counting.

    Attributes:
        unit: beats of the shortest run, and by which they grow.
        every: runs of one length, but the last length may have fewer.
        runs: runs until they begin anew.
    """

    unit: int
    every: int
    runs: int

    @property
    def lengths(self) -> int:
        """How many lengths there are."""
        return -(-self.runs // self.every)

    @property
    def longest(self) -> int:
        """Beats of the longest run."""
        return self.unit * self.lengths

    @cached_property
    def _levels(self) -> Cycles:
        """The first beat of each length."""
        lengths = np.arange(self.lengths)
        return self.unit * self.every * (lengths * (lengths + 1) // 2)

    @cached_property
    def beats(self) -> int:
        """Beats of all runs until they begin anew."""
        last = self.runs - self.every * (self.lengths - 1)
        return int(self._levels[-1]) + last * self.longest

    def count(self, beats: int) -> int:
        """Return how many runs some beats are, until runs begin anew, once or several times."""
        return beats // self.beats * self.runs

    def length(self, runs: Cycles) -> Cycles:
        """Return the beats of some runs."""
        cycles: Cycles = self.unit * (1 + runs % self.runs // self.every)
        return cycles

    def start(self, runs: Cycles) -> Cycles:
        """Return the first beats of some runs."""
        rounds, run = np.divmod(runs, self.runs)
        level, rest = np.divmod(run, self.every)
        cycles: Cycles = rounds * self.beats + self._levels[level] + rest * self.unit * (level + 1)
        return cycles

    def end(self, runs: Cycles) -> Cycles:
        """Return the last beats of some runs; -1 for that before the first one."""
        return self.start(runs + 1) - 1

    def run(self, beats: Cycles) -> Cycles:
        """Return the runs that some beats belong to."""
        rounds, beat = np.divmod(beats, self.beats)
        level = np.searchsorted(self._levels, beat, side="right") - 1
        rest = (beat - self._levels[level]) // (self.unit * (level + 1))
        cycles: Cycles = rounds * self.runs + level * self.every + rest
        return cycles

    def times(self, unit: int = 1, runs: int = 1) -> Growth:
        """Return runs of `unit` times as many beats, each of which comes `runs` times."""
        return Growth(self.unit * unit, self.every * runs, self.runs * runs)


def even(length: int, runs: int) -> Growth:
    """Return runs that are equally long."""
    return Growth(length, runs, runs)
