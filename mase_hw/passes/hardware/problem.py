"""One item of each part at the least cost, within bounds, by CP-SAT of OR-tools.

The seed is fixed and there is one worker, so that equal questions have equal answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

SEED, EFFORT = 1, 20.0
# Whole numbers for the solver: steps of a resource in one of it.
STEPS: Mapping[str, int] = {"lut": 16, "dsp": 1, "bram": 2}


class Item(Protocol):
    """A way to make a part of a design."""

    @property
    def lanes(self) -> tuple[int, ...]:
        """Its values of the groups of lanes that it is added with."""


T = TypeVar("T", bound=Item)


class Problem(Generic[T]):
    """A model for the solver.

    Args:
        lanes: the values of each group of lanes, of which streams that meet have one.
    """

    def __init__(self, lanes: Sequence[Sequence[int]] = ()) -> None:
        from ortools.sat.python import cp_model

        self._cp = cp_model
        self._model, self._solver = cp_model.CpModel(), cp_model.CpSolver()
        self._items: list[tuple[Any, T]] = []
        self._prices: list[Any] = []
        self._lanes = [
            dict(zip(values, self._one_of(len(values)), strict=True)) for values in lanes
        ]

    @property
    def gap(self) -> float:
        """By how much less than the last solution may be possible, as a share of it."""
        reached, bound = self._solver.objective_value, self._solver.best_objective_bound
        return (reached - bound) / reached if reached else 0.0

    @property
    def lanes(self) -> list[int]:
        """The value of each group of lanes in the last solution."""
        return [next(v for v, x in item.items() if self._solver.value(x)) for item in self._lanes]

    def add(self, items: Sequence[T], groups: Sequence[int] = (), hint: T | None = None) -> None:
        """Add items of which one is chosen, and the groups of lanes whose values they have.

        The solver begins with the items that are hints.
        """
        literals = self._one_of(len(items))
        if hint is not None:
            for literal, item in zip(literals, items, strict=True):
                self._model.add_hint(literal, item is hint)
        for place, group in enumerate(groups):
            for value, literal in self._lanes[group].items():
                pairs = zip(literals, items, strict=True)
                using = [chosen for chosen, item in pairs if item.lanes[place] == value]
                self._model.add(sum(using) == literal)
        self._items += zip(literals, items, strict=True)

    def join(self, ends: Sequence[tuple[int, ...]], price: int) -> None:
        """Let pairs of groups have the same lanes, or else pay a price."""
        differ = self._model.new_bool_var("")
        self._prices.append(price * differ)
        for one, other in ends:
            for value, literal in self._lanes[one].items():
                same = [self._lanes[other][value]] if value in self._lanes[other] else []
                self._model.add_bool_or([differ, literal.negated(), *same])

    def bound(self, amount: Callable[[T], int], most: int) -> None:
        """Bound the sum of an amount over the chosen items."""
        self._model.add(self._sum(amount) <= most)

    def bound_resources(self, budgets: Mapping[str, float]) -> None:
        """Bound resources, by name."""
        for name, most in budgets.items():
            self.bound(partial(steps, name), math.floor(most * STEPS[name]))

    def least(
        self, amount: Callable[[T], int], gap: float = 0.0, effort: float = EFFORT
    ) -> list[T] | None:
        """Solve for the least sum of an amount, up to a relative gap; None without a solution."""
        self._model.minimize(self._sum(amount) + sum(self._prices))
        parameters = self._solver.parameters
        parameters.num_workers, parameters.random_seed = 1, SEED
        parameters.max_deterministic_time, parameters.relative_gap_limit = effort, gap
        if self._solver.solve(self._model) not in (self._cp.OPTIMAL, self._cp.FEASIBLE):
            return None
        # Another amount may be asked for next.
        model: Any = self._model
        model.clear_hints()
        for literal, _ in self._items:
            self._model.add_hint(literal, bool(self._solver.value(literal)))
        return [item for literal, item in self._items if self._solver.value(literal)]

    def _one_of(self, count: int) -> list[Any]:
        literals = [self._model.new_bool_var("") for _ in range(count)]
        self._model.add_exactly_one(literals)
        return literals

    def _sum(self, amount: Callable[[T], int]) -> Any:
        literals = [literal for literal, _ in self._items]
        amounts = [amount(item) for _, item in self._items]
        return self._cp.LinearExpr.weighted_sum(literals, amounts)


def undominated(items: Sequence[T], values: Callable[[T], Sequence[float]]) -> list[T]:
    """Return the items that no other one is as good as in every value, in ascending order."""
    pairs = sorted(((tuple(values(item)), item) for item in items), key=lambda pair: pair[0])
    table = np.array([numbers for numbers, _ in pairs])
    kept: list[int] = []
    for place, numbers in enumerate(table):
        if not (table[kept] <= numbers).all(1).any():
            kept.append(place)
    return [pairs[place][1] for place in kept]


def steps(name: str, item: Any) -> int:
    """Return the whole steps of a resource that an item with an estimated `cost` takes."""
    amount: float = getattr(item.cost, name)
    return math.ceil(amount * STEPS[name])
