"""Turns of beats that grow: what is sent of a matrix of which row i has its first i + 1 elements.

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
    """Turns one after another, of which turn k has `unit * (1 + k // every)` beats.

    After `turns` of them they begin anew, for as long as beats come: numbers of turns and of beats
    that are given and returned go on counting.

    Attributes:
        unit: beats of the shortest turn, and by which they grow.
        every: turns of one length, but the last length may have fewer.
        turns: turns until they begin anew.
    """

    unit: int
    every: int
    turns: int

    @property
    def lengths(self) -> int:
        """How many lengths there are."""
        return -(-self.turns // self.every)

    @property
    def longest(self) -> int:
        """Beats of the longest turn."""
        return self.unit * self.lengths

    @cached_property
    def _levels(self) -> Cycles:
        """The first beat of each length."""
        lengths = np.arange(self.lengths)
        return self.unit * self.every * (lengths * (lengths + 1) // 2)

    @cached_property
    def beats(self) -> int:
        """Beats of all turns until they begin anew."""
        last = self.turns - self.every * (self.lengths - 1)
        return int(self._levels[-1]) + last * self.longest

    def count(self, beats: int) -> int:
        """Return how many turns some beats are, until turns begin anew, once or several times."""
        return beats // self.beats * self.turns

    def length(self, turns: Cycles) -> Cycles:
        """Return the beats of some turns."""
        found: Cycles = self.unit * (1 + turns % self.turns // self.every)
        return found

    def start(self, turns: Cycles) -> Cycles:
        """Return the first beats of some turns."""
        rounds, turn = np.divmod(turns, self.turns)
        level, rest = np.divmod(turn, self.every)
        found: Cycles = rounds * self.beats + self._levels[level] + rest * self.unit * (level + 1)
        return found

    def end(self, turns: Cycles) -> Cycles:
        """Return the last beats of some turns; -1 for that before the first one."""
        return self.start(turns + 1) - 1

    def turn(self, beats: Cycles) -> Cycles:
        """Return the turns that some beats belong to."""
        rounds, beat = np.divmod(beats, self.beats)
        level = np.searchsorted(self._levels, beat, side="right") - 1
        rest = (beat - self._levels[level]) // (self.unit * (level + 1))
        found: Cycles = rounds * self.turns + level * self.every + rest
        return found

    def times(self, unit: int = 1, turns: int = 1) -> Growth:
        """Return turns of `unit` times as many beats, each of which comes `turns` times."""
        return Growth(self.unit * unit, self.every * turns, self.turns * turns)


def even(length: int, turns: int) -> Growth:
    """Return turns that are equally long."""
    return Growth(length, turns, turns)
