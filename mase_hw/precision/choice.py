"""One option for every operand: the least hardware within a noise, or the reverse, by CP-SAT.

A node's first two operands, such as data and weights, are priced together; what it has beyond adds
to that. Options that another one is never worse than are left out before.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from operator import add
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw.errors import UnsupportedError
from mase_hw.precision.cost import Cost, CostTable, makers
from mase_hw.precision.noise import around, measured_options
from mase_hw.precision.operands import Operand, Option

TOGETHER = 2
SEED, EFFORT = 1, 20.0
# Whole numbers for the solver: in a bound of noise, in a look-up table, in half a block RAM.
NOISE_UNITS, MOST_NOISE = 1 << 24, 1 << 40
COST_UNITS = 16
# Steps of a resource in one of it.
STEPS: Mapping[str, int] = {"lut": COST_UNITS, "bram": 2}


@dataclass(frozen=True)
class Pick:
    """Options of some operands of a node.

    Attributes:
        options: (place of an operand, place of its option).
        cost: what they take; of an operand that is priced alone, more than in 16 bits.
        noise: that they add, by output.

    Those of a graph, `Chooser.groups`, are the first operands of each node together, then each
    other one by itself.
    """

    options: tuple[tuple[int, int], ...]
    cost: Cost
    noise: Tensor

    def values(self, names: Sequence[str]) -> list[float]:
        """Return what less is better of."""
        resources = (getattr(self.cost, name) for name in names)
        return [*self.cost.order, *resources, *self.noise.tolist()]


@dataclass(frozen=True)
class Chosen:
    """An option of every operand.

    Attributes:
        options: the place of each operand's.
        noise: predicted, by output.
    """

    options: tuple[int, ...]
    noise: Tensor


class Chooser:
    """The choices of a graph.

    Args:
        operands: what is chosen for.
        noise: by operand `[options, outputs]`, over the signal.
        costs: prices.

    Attributes:
        groups: picks, of each of which one is chosen.

    Raises:
        UnsupportedError: where a node has no hardware in any of its options.
    """

    def __init__(
        self, operands: Sequence[Operand], noise: Sequence[Tensor], costs: CostTable
    ) -> None:
        self._operands, self._noise, self._costs = operands, noise, costs
        self._making: dict[tuple[int, int], Cost | None] = {}
        by_node: dict[Node, list[int]] = defaultdict(list)
        for place, item in enumerate(operands):
            by_node[item.node].append(place)
        self.groups = [
            group for node, places in by_node.items() for group in self._groups_of(node, places)
        ]

    def node_of(self, pick: Pick) -> Node:
        """Return the node whose operands a pick is of."""
        return self._operands[pick.options[0][0]].node

    def own_cost(self, pick: Pick) -> Cost:
        """Return what a node takes, without what makes its operands in their formats."""
        return self._costs.of(self.node_of(pick), self.named(pick)) or Cost()

    def named(self, pick: Pick) -> dict[str, Option]:
        """Return the options of a pick by operand."""
        return self._named(pick.options)

    def chosen(self, picks: Sequence[Pick]) -> Chosen:
        """Return the choice of one pick of each group."""
        options = [0] * len(self._operands)
        for pick in picks:
            for place, number in pick.options:
                options[place] = number
        return Chosen(tuple(options), reduce(add, (pick.noise for pick in picks)))

    def finest(self) -> Chosen:
        """Return the options that add the least noise."""
        picks = [min(group, key=lambda pick: float(pick.noise.sum())) for group in self.groups]
        return self.chosen(picks)

    def coarsest(self) -> Chosen:
        """Return the options that take the least."""
        return self.chosen([min(group, key=lambda p: p.cost.weighed) for group in self.groups])

    def uniform(self) -> list[Chosen]:
        """Return choices of the same fields for all operands that have them, the coarsest first.

        Some may have no hardware.
        """
        shared = [{option.kind for option in item.options} for item in self._operands]
        found = [
            Chosen(numbers := self._numbers(kind), reduce(add, self._noise_of(numbers)))
            for kind in sorted(set.intersection(*shared), key=repr)
        ]
        return sorted(found, key=lambda item: -float(item.noise.max()))

    def narrow(self, names: Collection[str], chosen: Chosen) -> bool:
        """Leave out what is as wide as a choice at some nodes; false where nothing would be left.

        Of a node that has hardware for its own operands, it is what consumers ask of its result.

        Args:
            names: of the nodes.
            chosen: the choice.
        """
        narrowed = [self._narrow(self._to_blame(name, chosen), chosen) for name in sorted(names)]
        return any(narrowed)

    def _to_blame(self, name: str, chosen: Chosen) -> set[int]:
        """Return the places of what a node is refused for: its operands, or consumers of it."""
        own = {place for place, item in enumerate(self._operands) if item.node.name == name}
        named = self._named([(place, chosen.options[place]) for place in own])
        if own and self._costs.of(self._operands[min(own)].node, named) is None:
            return own
        return {
            place
            for place, item in enumerate(self._operands)
            if any(node.name == name for node in makers(item))
        } or own

    def _narrow(self, places: Collection[int], chosen: Chosen) -> bool:
        """Leave out the options of places that are as wide as the widest chosen there."""
        widest = max((self._bits(place, chosen.options[place]) for place in places), default=0.0)
        found = False
        for number, group in enumerate(self.groups):
            kept = [
                pick
                for pick in group
                if all(p not in places or self._bits(p, n) < widest for p, n in pick.options)
            ]
            if kept and len(kept) < len(group):
                self.groups[number], found = kept, True
        return found

    def _bits(self, place: int, number: int) -> float:
        return self._operands[place].options[number].number_format.bits_per_element

    def _numbers(self, kind: Hashable) -> tuple[int, ...]:
        return tuple(
            next(n for n, option in enumerate(item.options) if option.kind == kind)
            for item in self._operands
        )

    def _noise_of(self, numbers: Sequence[int]) -> Iterator[Tensor]:
        return (self._noise[place][number] for place, number in enumerate(numbers))

    def least(self, name: str) -> float:
        """Return the least of a resource that any choice takes."""
        return float(sum(min(getattr(p.cost, name) for p in group) for group in self.groups))

    def cheapest(self, bound: Tensor, budgets: Mapping[str, float]) -> Chosen | None:
        """Return the choice that takes the least within a noise by output; None where none is."""
        return self._solved(bound, budgets)

    def best(self, budgets: Mapping[str, float]) -> Chosen | None:
        """Return the choice of the least noise, over all outputs, within budgets."""
        return self._solved(None, budgets)

    def worst_of(self, chosen: Chosen) -> tuple[Operand, Option, float]:
        """Return the operand that adds the most noise, its option, and its share of all."""
        shares = self.shares(chosen)
        place = max(range(len(shares)), key=shares.__getitem__)
        operand = self._operands[place]
        return operand, operand.options[chosen.options[place]], shares[place]

    def shares(self, chosen: Chosen) -> list[float]:
        """Return the share of the noise that each operand adds, of the output with the most."""
        output = int(chosen.noise.argmax())
        total = max(float(chosen.noise[output]), 1e-300)
        return [
            float(self._noise[place][number, output]) / total
            for place, number in enumerate(chosen.options)
        ]

    def _groups_of(self, node: Node, places: Sequence[int]) -> Iterator[list[Pick]]:
        """Yield the picks of the first operands together, then of each other by itself."""
        joint = list(self._together(node, places[:TOGETHER]))
        if not joint:
            raise UnsupportedError(f"{node.name} has no hardware in any of the formats to try")
        yield _worth(joint)
        for place in places[TOGETHER:]:
            alone = list(self._alone(node, place, joint[-1]))
            if alone:
                yield _worth(alone)

    def _together(self, node: Node, places: Sequence[int]) -> Iterator[Pick]:
        known = self._prices(node, places)
        near = [around(self._operands[place]) for place in places]
        for numbers in product(*(range(len(self._operands[place].options)) for place in places)):
            if numbers not in known:
                corners = product(*(item[n] for item, n in zip(near, numbers, strict=True)))
                known[numbers] = _mean([known[corner] for corner in corners])
            cost = known[numbers]
            if cost is not None:
                picked = tuple(zip(places, numbers, strict=True))
                yield Pick(picked, cost, self._sum(picked))

    def _prices(self, node: Node, places: Sequence[int]) -> dict[tuple[int, ...], Cost | None]:
        """Return what every second width of a node's options takes."""
        tried = [measured_options(self._operands[place]) for place in places]
        return {
            numbers: self._priced(node, tuple(zip(places, numbers, strict=True)))
            for numbers in product(*tried)
        }

    def _alone(self, node: Node, place: int, base: Pick) -> Iterator[Pick]:
        for number in range(len(self._operands[place].options)):
            picked = ((place, number),)
            cost = self._priced(node, (*base.options, *picked))
            if cost is not None:
                yield Pick(picked, cost - base.cost, self._sum(picked))

    def _priced(self, node: Node, picked: Sequence[tuple[int, int]]) -> Cost | None:
        """Return what a node takes, and what makes its operands in their formats more."""
        costs = [self._costs.of(node, self._named(picked))]
        costs += [self._made(*item) for item in picked]
        known = [item for item in costs if item is not None]
        return reduce(add, known) if len(known) == len(costs) else None

    def _made(self, place: int, number: int) -> Cost | None:
        """Return what it takes to make an operand in an option."""
        if (place, number) not in self._making:
            operand = self._operands[place]
            self._making[place, number] = self._costs.made(operand, operand.options[number])
        return self._making[place, number]

    def _named(self, picked: Sequence[tuple[int, int]]) -> dict[str, Option]:
        return {
            self._operands[place].name: self._operands[place].options[number]
            for place, number in picked
        }

    def _sum(self, picked: Sequence[tuple[int, int]]) -> Tensor:
        return reduce(add, (self._noise[place][number] for place, number in picked))

    def _solved(self, bound: Tensor | None, budgets: Mapping[str, float]) -> Chosen | None:
        problem = Problem()
        for group in self.groups:
            problem.add_group(group)
        problem.bound_resources(budgets)
        unit = float(self.finest().noise.sum()) / NOISE_UNITS
        picked = problem.solved(bound, unit)
        return None if picked is None else self.chosen(picked)


class Problem:
    """One pick of each group, within bounds, by CP-SAT.

    Attributes:
        model: the model, to which more may be added.
        rows: literals and their picks.
    """

    def __init__(self) -> None:
        from ortools.sat.python import cp_model

        self._cp = cp_model
        self.model = cp_model.CpModel()
        self.rows: list[tuple[Any, Pick]] = []
        self._solver = cp_model.CpSolver()

    def switch(self) -> Any:
        """Return a new literal, true or false as the solver chooses."""
        return self.model.new_bool_var("")

    def is_on(self, literal: Any) -> bool:
        """Return whether a literal holds in the solution."""
        return bool(self._solver.value(literal))

    def add_group(self, group: Sequence[Pick]) -> list[Any]:
        """Add picks of which one is chosen, and return their literals."""
        literals = [self.switch() for _ in group]
        self.model.add_exactly_one(literals)
        self.rows += list(zip(literals, group, strict=True))
        return literals

    def bound_resources(self, budgets: Mapping[str, float]) -> None:
        """Bound resources, by name."""
        for name, most in budgets.items():
            steps = STEPS[name]
            taken = [math.ceil(getattr(pick.cost, name) * steps) for _, pick in self.rows]
            self.model.add(self._sum(taken) <= math.floor(most * steps))

    def solved(self, bound: Tensor | None, unit: float = 1.0) -> list[Pick] | None:
        """Return the picks of least cost within a noise by output, or of the least noise.

        Args:
            bound: of noise; None for the least.
            unit: of noise where that is least.
        """
        if bound is None:
            noise = [_whole(float(pick.noise.sum()), unit) for _, pick in self.rows]
            self.model.minimize(self._sum(noise))
        else:
            for output, most in enumerate(bound.tolist()):
                unit = most / NOISE_UNITS
                noise = [_whole(float(pick.noise[output]), unit) for _, pick in self.rows]
                self.model.add(self._sum(noise) <= NOISE_UNITS)
            weights = [round(pick.cost.weighed * COST_UNITS) for _, pick in self.rows]
            self.model.minimize(self._sum(weights))
        picked = self._solve()
        if picked is None or bound is None:
            return picked
        # Of choices that take the same, the one of the fewest bits of memory.
        taken = sum(round(pick.cost.weighed * COST_UNITS) for pick in picked)
        for literal, _ in self.rows:
            self.model.add_hint(literal, self.is_on(literal))
        self.model.add(self._sum(weights) <= taken)
        self.model.minimize(self._sum([round(pick.cost.memory_bits) for _, pick in self.rows]))
        return self._solve() or picked

    def _solve(self) -> list[Pick] | None:
        parameters = self._solver.parameters
        parameters.num_workers, parameters.random_seed = 1, SEED
        parameters.max_deterministic_time, parameters.relative_gap_limit = EFFORT, 1e-3
        if self._solver.solve(self.model) not in (self._cp.OPTIMAL, self._cp.FEASIBLE):
            return None
        return [pick for literal, pick in self.rows if self.is_on(literal)]

    def _sum(self, numbers: Sequence[int]) -> Any:
        literals = [literal for literal, _ in self.rows]
        return self._cp.LinearExpr.weighted_sum(literals, numbers)


def _mean(costs: Sequence[Cost | None]) -> Cost | None:
    """Return the mean of costs; None where one of them is."""
    known = [cost for cost in costs if cost is not None]
    return reduce(add, known).over(len(known)) if len(known) == len(costs) else None


def _whole(noise: float, unit: float) -> int:
    return min(math.ceil(noise / max(unit, 1e-300)), MOST_NOISE)


def _worth(picks: Sequence[Pick]) -> list[Pick]:
    """Return the picks that no other one is as good as in everything, the cheapest first."""
    ordered = sorted(picks, key=lambda pick: pick.values(tuple(STEPS)))
    values = torch.tensor([pick.values(tuple(STEPS)) for pick in ordered], dtype=torch.float64)
    kept: list[int] = []
    for place in range(len(ordered)):
        if not kept or not bool((values[kept] <= values[place]).all(1).any()):
            kept.append(place)
    return [ordered[place] for place in kept]
