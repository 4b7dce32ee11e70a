"""The smallest interval within a budget of multipliers, and the least hardware that keeps it.

A unit works on an inference for a number of cycles that its lanes decide. Units whose streams meet
have one group of lanes where the stream cannot be re-tiled; elsewhere the lanes at both ends of an
edge are free of each other, at a price. No interval is shorter than one that units keep within the
budget each for itself. From there on CP-SAT chooses the lanes of all units at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from mase_hw.passes.hardware.problem import Problem

# Of many sizes those are tried that are this much larger than the one before.
GROWTH = 1.06
# A multiplier takes about as much as so many lanes.
MULTIPLIER_WIDTH = 8
# Options of all units that are chosen among, beside those that are best at some lanes.
MOST_OPTIONS = 6_000
# How much better than the chosen lanes others may be, and the effort: proving more takes long.
GAP, EFFORT = 0.02, 1.5


@dataclass(frozen=True)
class Option:
    """One way to run a unit.

    Attributes:
        lanes: of the groups that it sees.
        work_cycles: cycles of an inference.
        multipliers: its multipliers.
        width: how wide its operands are, in lanes.
        unrolled: elements per cycle by constant operand.
    """

    lanes: tuple[int, ...]
    work_cycles: int
    multipliers: int
    width: int = 0
    unrolled: Mapping[str, int] = field(default_factory=dict)

    @property
    def busy(self) -> int:
        """Products that its multipliers could make in an inference."""
        return self.work_cycles * self.multipliers

    @property
    def cost(self) -> int:
        """What it takes, in lanes."""
        return MULTIPLIER_WIDTH * self.multipliers + self.width


@dataclass(frozen=True)
class Unit:
    """A unit of the design.

    Attributes:
        groups: the groups of lanes that it sees.
        options: the ways to run it.
    """

    groups: tuple[int, ...]
    options: Sequence[Option]

    @cached_property
    def _ladder(self) -> tuple[list[int], list[int]]:
        """Works, ascending, and the fewest multipliers that keep each."""
        pairs = sorted((item.work_cycles, item.multipliers) for item in self.options)
        works, products = zip(*pairs, strict=True)
        return list(works), np.minimum.accumulate(products).tolist()

    def fewest(self, interval: float) -> float:
        """Return the fewest multipliers that keep an interval, infinite where none do."""
        works, products = self._ladder
        place = int(np.searchsorted(works, interval, "right"))
        return products[place - 1] if place else np.inf

    def worth(self, interval: int, multipliers: float, most: int) -> list[Option]:
        """Return options that keep an interval with so many multipliers: the cheapest `most`."""
        kept = [
            item
            for item in self.options
            if item.work_cycles <= interval and item.multipliers <= multipliers
        ]
        kept.sort(key=lambda item: item.cost)
        best = {
            (place, value): item for item in kept[::-1] for place, value in enumerate(item.lanes)
        }
        few = sorted(kept, key=lambda item: item.multipliers)[:1]
        return list({id(item): item for item in (*kept[:most], *best.values(), *few)}.values())


@dataclass(frozen=True)
class Join:
    """A stream that may be re-tiled.

    Attributes:
        ends: its groups of lanes before and behind, by dimension.
        price: of re-tiling, in lanes, beside the lanes themselves.
    """

    ends: Sequence[tuple[int, ...]]
    price: int


@dataclass(frozen=True)
class Balance:
    """Units, the values that each group of lanes may take, and what may be re-tiled."""

    units: Sequence[Unit]
    candidates: Sequence[Sequence[int]]
    joins: Sequence[Join] = ()

    def best(self, budget: int) -> tuple[list[int], list[Option]] | None:
        """Return lanes and options of the smallest interval; None where the budget allows none."""
        works = sorted({0} | {item.work_cycles for unit in self.units for item in unit.options})
        low, high, best = 0, len(works), None
        while low < high:
            middle = (low + high) // 2
            if self._fewest(works[middle]) <= budget:
                high = middle
            else:
                low = middle + 1
        # Where no lanes are tied, the first interval can be kept.
        middle, high = low, len(works)
        while low < high:
            solved = self._chosen(works[middle], budget)
            if solved is None:
                low = middle + 1
            else:
                best, high = solved, middle
            middle = (low + high) // 2
        return best

    def least(self) -> int:
        """Return the multipliers of the smallest design."""
        solved = self._chosen(1 << 60, 1 << 30, fewest=True)
        return sum(item.multipliers for item in solved[1]) if solved else int(self._fewest(np.inf))

    def _fewest(self, interval: float) -> float:
        return sum(unit.fewest(interval) for unit in self.units)

    def _chosen(
        self, interval: int, budget: int, *, fewest: bool = False
    ) -> tuple[list[int], list[Option]] | None:
        spare, most = budget - self._fewest(interval), MOST_OPTIONS // max(1, len(self.units))
        problem = Problem[Option](self.candidates)
        for unit in self.units:
            options = unit.worth(interval, unit.fewest(interval) + spare, most)
            fewest_products = min(options, key=lambda item: (item.multipliers, item.cost))
            problem.add(options, unit.groups, fewest_products)
        for join in self.joins:
            problem.join(join.ends, join.price)
        problem.bound(lambda item: item.multipliers, budget)
        chosen = problem.least(lambda item: item.multipliers if fewest else item.cost, GAP, EFFORT)
        return None if chosen is None else (problem.lanes, chosen)


def tile_sizes(size: int) -> list[int]:
    """Return sizes of a tile worth trying, ascending from 1 to `size`.

    They are the smallest ones for a number of tiles, thinned out where there are many.
    """
    kept = [1]
    for value in sorted({-(-size // tiles) for tiles in range(1, size + 1)}):
        if value == size > 1 or value >= kept[-1] * GROWTH:
            kept.append(value)
    return kept
