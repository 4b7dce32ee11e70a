"""The smallest interval within a budget of multipliers.

A unit works on an inference for a number of cycles that its lanes decide; units that meet share
lanes. For an interval that is given, lanes that keep it with the fewest multipliers are sought by
descent, from the narrowest and from the widest ones, over one group of lanes and over two of a unit
at a time. The smallest interval whose multipliers fit is found by bisection.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, product

import numpy as np
import numpy.typing as npt

Lanes = tuple[int, ...]
# What is made small, in this order: cycles beyond the interval, multipliers, width.
Cost = tuple[int, int, int]
FOREVER = 1 << 50
NEVER: Cost = (FOREVER, 0, 0)
# Of many sizes those are tried that are this much larger than the one before.
GROWTH = 1.06


@dataclass(frozen=True)
class Option:
    """One way to run a unit at given lanes.

    Attributes:
        work_cycles: cycles of an inference.
        multipliers: its multipliers.
        width: how wide its operands are; narrow ones are preferred.
        unrolled: elements per cycle by constant operand.
    """

    work_cycles: int
    multipliers: int
    width: int = 0
    unrolled: Mapping[str, int] = field(default_factory=dict)


@dataclass
class Ladder:
    """Options, each with more multipliers than the one before, none with more work.

    Attributes:
        count: how many there are.
        build: from a place to the option; an option is built when it is asked for.
    """

    count: int
    build: Callable[[int], Option]
    _built: dict[int, Option] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Option]:
        return map(self.__getitem__, range(self.count))

    def __getitem__(self, place: int) -> Option:
        if place not in self._built:
            self._built[place] = self.build(place)
        return self._built[place]

    def within(self, cycles: int) -> Option:
        """Return the option of the fewest multipliers that takes so many cycles, or the fastest."""
        place = self._first(cycles)
        if place == self.count:
            place = self._first(self[place - 1].work_cycles)
        return self[place]

    def _first(self, cycles: int) -> int:
        places = range(self.count)
        return bisect_left(places, -cycles, key=lambda place: -self[place].work_cycles)


@dataclass
class Unit:
    """A unit of the design.

    Attributes:
        groups: the groups of lanes that it sees.
        measure: from their values to the options; None where these lanes are not legal.
    """

    groups: tuple[int, ...]
    measure: Callable[[Lanes], Ladder | None]
    _known: dict[Lanes, Ladder | None] = field(default_factory=dict)
    _costs: dict[int, dict[Lanes, Cost]] = field(default_factory=dict)

    def like(self, groups: tuple[int, ...]) -> Unit:
        """Return an equal unit that sees other groups; what is measured of one holds for both."""
        return Unit(groups, self.measure, self._known, self._costs)

    def options(self, lanes: Sequence[int]) -> Ladder | None:
        """Return the options at these lanes."""
        seen = tuple([lanes[group] for group in self.groups])
        if seen not in self._known:
            self._known[seen] = self.measure(seen)
        return self._known[seen]

    def choose(self, lanes: Sequence[int], interval: int) -> Option:
        """Return the option of the fewest multipliers that keeps the interval, else the fastest."""
        options = self.options(lanes)
        assert options is not None
        return options.within(interval)

    def cost(self, lanes: Sequence[int], interval: int) -> Cost:
        """Cost of the chosen option."""
        known = self._costs.setdefault(interval, {})
        seen = tuple([lanes[group] for group in self.groups])
        cost = known.get(seen)
        if cost is None:
            cost = NEVER
            options = self.options(lanes)
            if options is not None:
                option = options.within(interval)
                beyond = max(0, option.work_cycles - interval)
                cost = beyond, option.multipliers, option.width
            known[seen] = cost
        return cost


@dataclass(frozen=True)
class Balance:
    """Units, and for each group of lanes the values that it may take, ascending.

    The first values are legal for every unit.
    """

    units: Sequence[Unit]
    candidates: Sequence[Sequence[int]]

    def best(self, budget: int) -> list[int] | None:
        """Return the lanes of the smallest interval; None where the budget allows none."""
        slowest = self._narrowest()
        found = None
        # No unit multiplies less than in its narrowest lanes.
        low = sum(option.work_cycles * option.multipliers for option in slowest) // max(1, budget)
        high = max((option.work_cycles for option in slowest), default=0)
        while low <= high:
            interval = (low + high) // 2
            lanes = self._lanes(interval, budget)
            if lanes is None:
                low = interval + 1
            else:
                found, high = lanes, self.interval(lanes, interval) - 1
        return found

    def least(self) -> int:
        """Return the multipliers of the narrowest lanes."""
        return sum(option.multipliers for option in self._narrowest())

    def _narrowest(self) -> list[Option]:
        narrow = [values[0] for values in self.candidates]
        return [unit.choose(narrow, FOREVER) for unit in self.units]

    def interval(self, lanes: Sequence[int], interval: int) -> int:
        """Return the cycles of the slowest unit when each keeps `interval` if it can."""
        chosen = (unit.choose(lanes, interval).work_cycles for unit in self.units)
        return max(chosen, default=0)

    def smallest_interval(self, lanes: Sequence[int], budget: int) -> int:
        """Return the smallest interval at these lanes within the budget."""
        works = {item.work_cycles for unit in self.units for item in unit.options(lanes) or ()}
        for interval in sorted(works):
            beyond, multipliers, _ = self._total(self.units, lanes, interval)
            if beyond == 0 and multipliers <= budget:
                return interval
        return max(works, default=0)

    def _lanes(self, interval: int, budget: int) -> list[int] | None:
        """Return lanes that keep the interval within the budget, if the descent finds them."""
        for end in (0, -1):
            lanes = [values[end] for values in self.candidates]
            while self._improve(lanes, interval):
                pass
            beyond, multipliers, _ = self._total(self.units, lanes, interval)
            if beyond == 0 and multipliers <= budget:
                return lanes
        return None

    def _improve(self, lanes: list[int], interval: int) -> bool:
        """Give each group, and each pair that shares a unit, its best values in turn."""
        improved = False
        for groups in self._moves():
            kept = tuple([lanes[group] for group in groups])
            best = self._best_values(groups, lanes, interval)
            _assign(lanes, groups, best)
            improved |= best != kept
        return improved

    def _best_values(
        self, groups: tuple[int, ...], lanes: list[int], interval: int
    ) -> tuple[int, ...]:
        """Return the values of one group, or of two, that cost least; those of `lanes` if equal.

        Units that see one of two groups are asked once for each of its values, those that see both
        only for pairs at which the others leave room.
        """
        kept = tuple([lanes[group] for group in groups])
        seen = [self._seen[group] for group in groups]
        shared = seen[0] & seen[-1] if len(groups) > 1 else frozenset()
        both = [self.units[place] for place in sorted(shared)]
        least = np.zeros((1, 3), dtype=np.int64)
        for group, places in zip(groups, seen, strict=True):
            costs = self._costs(group, sorted(places - shared), lanes, interval)
            least = (least[:, None] + costs[None]).reshape(-1, 3)
        pairs = list(product(*(self.candidates[group] for group in groups)))
        best, cost = kept, _sum(_cost(least[pairs.index(kept)]), self._total(both, lanes, interval))
        for place in np.flatnonzero(_below(least, cost)):
            own = _cost(least[place])
            if own >= cost:
                continue
            _assign(lanes, groups, pairs[place])
            new = _sum(own, self._total(both, lanes, interval))
            if new < cost:
                best, cost = pairs[place], new
        _assign(lanes, groups, kept)
        return best

    def _costs(
        self, group: int, places: Sequence[int], lanes: list[int], interval: int
    ) -> npt.NDArray[np.int64]:
        """Costs of some units at each value of a group, `[values, 3]`."""
        values = self.candidates[group]
        found = np.zeros((len(values), 3), dtype=np.int64)
        for place in places:
            unit, kept = self.units[place], lanes[group]
            others = tuple([lanes[other] for other in unit.groups if other != group])
            key = place, group, interval, others
            if key not in self._rows:
                rows = []
                for value in values:
                    lanes[group] = value
                    rows.append(unit.cost(lanes, interval))
                lanes[group] = kept
                self._rows[key] = np.array(rows, dtype=np.int64)
            found += self._rows[key]
        return found

    @cached_property
    def _rows(self) -> dict[tuple[int, int, int, Lanes], npt.NDArray[np.int64]]:
        """What a unit costs at each value of a group, by the lanes of its other groups."""
        return {}

    @cached_property
    def _seen(self) -> list[frozenset[int]]:
        """The places of the units that see each group."""
        seen: list[set[int]] = [set() for _ in self.candidates]
        for place, unit in enumerate(self.units):
            for group in unit.groups:
                seen[group].add(place)
        return [frozenset(places) for places in seen]

    def _moves(self) -> Iterator[tuple[int, ...]]:
        free = {group for group, values in enumerate(self.candidates) if len(values) > 1}
        pairs = {
            pair
            for unit in self.units
            for pair in combinations(sorted(free.intersection(unit.groups)), 2)
        }
        yield from ((group,) for group in sorted(free))
        yield from sorted(pairs)

    @staticmethod
    def _total(units: Iterable[Unit], lanes: Sequence[int], interval: int) -> Cost:
        """Return the cost of units."""
        return _sum(*[unit.cost(lanes, interval) for unit in units])


def _below(costs: npt.NDArray[np.int64], bound: Cost) -> npt.NDArray[np.bool_]:
    """Return which of `[costs, 3]` come before a bound, the first number first."""
    beyond, products, wide = costs.T
    last: npt.NDArray[np.bool_] = (products == bound[1]) & (wide < bound[2])
    later: npt.NDArray[np.bool_] = (beyond == bound[0]) & ((products < bound[1]) | last)
    found: npt.NDArray[np.bool_] = (beyond < bound[0]) | later
    return found


def _cost(row: npt.NDArray[np.int64]) -> Cost:
    beyond, products, wide = row.tolist()
    return beyond, products, wide


def _sum(*costs: Cost) -> Cost:
    beyond = multipliers = width = 0
    for more, products, wide in costs:
        beyond += more
        multipliers += products
        width += wide
    return beyond, multipliers, width


def _assign(lanes: list[int], groups: Sequence[int], values: Sequence[int]) -> None:
    for group, value in zip(groups, values, strict=True):
        lanes[group] = value


def tile_sizes(size: int) -> list[int]:
    """Return sizes of a tile worth trying, ascending from 1 to `size`.

    They are the smallest ones for a number of tiles, thinned out where there are many.
    """
    kept = [1]
    for value in sorted({-(-size // tiles) for tiles in range(1, size + 1)}):
        if value == size > 1 or value >= kept[-1] * GROWTH:
            kept.append(value)
    return kept
