"""One option for every operand: the least hardware within a noise, or the reverse, by CP-SAT.

A node's first two operands, such as data and weights, are priced together; what it has beyond adds
to that. Options that another one is never worse than are left out before.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import product
from operator import add

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw.errors import UnsupportedError
from mase_hw.hardware.estimate import Estimate
from mase_hw.passes.hardware.problem import Problem
from mase_hw.precision.cost import CostTable, makers
from mase_hw.precision.noise import around, measured_options
from mase_hw.precision.operands import Operand, Option

TOGETHER = 2
# Whole numbers for the solver in a bound of noise and in a look-up table; the gap to the least.
NOISE_UNITS, MOST_NOISE = 1 << 24, 1 << 40
COST_UNITS, GAP = 16, 1e-3
# Resources that a goal may bound.
BOUNDED = ("lut", "bram")


@dataclass(frozen=True)
class Pick:
    """Options of some operands of a node.

    Attributes:
        options: (place of an operand, place of its option).
        cost: what they take; of an operand that is priced alone, more than in 16 bits.
        noise: that they add, by output.
        lanes: values of the groups of lanes that the node sees, where those are chosen, too.
        unrolled: elements of the node's constants a cycle, likewise.

    Those of a graph, `Chooser.groups`, are the first operands of each node together, then each
    other one by itself.
    """

    options: tuple[tuple[int, int], ...]
    cost: Estimate
    noise: Tensor
    lanes: tuple[int, ...] = ()
    unrolled: Mapping[str, int] = field(default_factory=dict)

    def values(self, names: Sequence[str]) -> list[float]:
        """Return costs and noises, by which picks are compared."""
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
        self._making: dict[tuple[int, int], Estimate | None] = {}
        by_node: dict[Node, list[int]] = defaultdict(list)
        for place, item in enumerate(operands):
            by_node[item.node].append(place)
        self.groups = [
            group for node, places in by_node.items() for group in self._groups_of(node, places)
        ]

    def node_of(self, pick: Pick) -> Node:
        """Return the node whose operands a pick is of."""
        return self._operands[pick.options[0][0]].node

    def own_cost(self, pick: Pick) -> Estimate:
        """Return the cost of a node, without that of the producers of its operands."""
        return self._costs.of(self.node_of(pick), self.named(pick.options)) or Estimate()

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
        kinds = sorted(set.intersection(*shared), key=repr)
        return sorted(map(self._uniform, kinds), key=lambda item: -float(item.noise.max()))

    def _uniform(self, kind: Hashable) -> Chosen:
        kinds: list[list[Hashable]] = [
            [option.kind for option in item.options] for item in self._operands
        ]
        numbers = [item.index(kind) for item in kinds]
        return Chosen(tuple(numbers), self._sum(list(enumerate(numbers))))

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
        named = self.named([(place, chosen.options[place]) for place in own])
        if own and self._costs.of(self._operands[min(own)].node, named) is None:
            return own
        return {
            place
            for place, item in enumerate(self._operands)
            if any(node.name == name for node in makers(item))
        } or own

    def _narrow(self, places: Collection[int], chosen: Chosen) -> bool:
        widest = max((self._bits(place, chosen.options[place]) for place in places), default=0.0)
        narrowed = False
        for number, group in enumerate(self.groups):
            kept = [
                pick
                for pick in group
                if all(p not in places or self._bits(p, n) < widest for p, n in pick.options)
            ]
            if kept and len(kept) < len(group):
                self.groups[number], narrowed = kept, True
        return narrowed

    def _bits(self, place: int, number: int) -> float:
        return self._operands[place].options[number].number_format.bits_per_element

    def least(self, name: str) -> float:
        """Return the least of a resource that any choice takes."""
        return float(sum(min(getattr(p.cost, name) for p in group) for group in self.groups))

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
        joint = list(self._together(node, places[:TOGETHER]))
        if not joint:
            raise UnsupportedError(f"{node.name} has no hardware in any of the formats to try")
        yield _worth(joint)
        for place in places[TOGETHER:]:
            alone = list(self._alone(node, place, joint[-1]))
            if alone:
                yield _worth(alone)

    def _together(self, node: Node, places: Sequence[int]) -> Iterator[Pick]:
        prices = self._prices(node, places)
        near = [around(self._operands[place]) for place in places]
        for numbers in product(*(range(len(self._operands[place].options)) for place in places)):
            if numbers not in prices:
                corners = product(*(item[n] for item, n in zip(near, numbers, strict=True)))
                prices[numbers] = _mean([prices[corner] for corner in corners])
            cost = prices[numbers]
            if cost is not None:
                picked = tuple(zip(places, numbers, strict=True))
                yield Pick(picked, cost, self._sum(picked))

    def _prices(self, node: Node, places: Sequence[int]) -> dict[tuple[int, ...], Estimate | None]:
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

    def _priced(self, node: Node, picked: Sequence[tuple[int, int]]) -> Estimate | None:
        costs = [self._costs.of(node, self.named(picked))]
        costs += [self._producer_cost(*item) for item in picked]
        parts = [item for item in costs if item is not None]
        return reduce(add, parts) if len(parts) == len(costs) else None

    def _producer_cost(self, place: int, number: int) -> Estimate | None:
        if (place, number) not in self._making:
            operand = self._operands[place]
            self._making[place, number] = self._costs.producer_cost(
                operand, operand.options[number]
            )
        return self._making[place, number]

    def named(self, picked: Sequence[tuple[int, int]]) -> dict[str, Option]:
        """Return the options of (place of an operand, place of its option) by operand."""
        return {
            self._operands[place].name: self._operands[place].options[number]
            for place, number in picked
        }

    def _sum(self, picked: Sequence[tuple[int, int]]) -> Tensor:
        return reduce(add, (self._noise[place][number] for place, number in picked))

    def solved(self, bound: Tensor | None, budgets: Mapping[str, float]) -> Chosen | None:
        """Choose the least cost within a noise by output, without a bound the least noise.

        Args:
            bound: of noise.
            budgets: the most of each resource.
        """
        problem = Problem[Pick]()
        for group in self.groups:
            problem.add(group)
        problem.bound_resources(budgets)
        if bound is not None:
            picks = cheapest(problem, bound)
        else:
            unit = float(self.finest().noise.sum()) / NOISE_UNITS
            picks = problem.least(partial(_noise, unit, None), GAP)
        return None if picks is None else self.chosen(picks)


def cheapest(problem: Problem[Pick], bound: Tensor) -> list[Pick] | None:
    """Return the picks of least cost within a noise by output; of equal ones, the fewest bits."""
    for output, most in enumerate(bound.tolist()):
        problem.bound(partial(_noise, most / NOISE_UNITS, output), NOISE_UNITS)
    picks = problem.least(_weighed, GAP)
    if picks is None:
        return None
    problem.bound(_weighed, sum(map(_weighed, picks)))
    return problem.least(lambda pick: round(pick.cost.memory_bits), GAP) or picks


def _weighed(pick: Pick) -> int:
    return round(pick.cost.weighed * COST_UNITS)


def _mean(costs: Sequence[Estimate | None]) -> Estimate | None:
    parts = [cost for cost in costs if cost is not None]
    return reduce(add, parts) / len(parts) if len(parts) == len(costs) else None


def _noise(unit: float, output: int | None, pick: Pick) -> int:
    noise = float(pick.noise.sum() if output is None else pick.noise[output])
    return min(math.ceil(noise / max(unit, 1e-300)), MOST_NOISE)


def _worth(picks: Sequence[Pick]) -> list[Pick]:
    """Return the picks that no other one is as good as in everything, the cheapest first."""
    ordered = sorted(picks, key=lambda pick: pick.values(BOUNDED))
    values = torch.tensor([pick.values(BOUNDED) for pick in ordered], dtype=torch.float64)
    kept: list[int] = []
    for place in range(len(ordered)):
        if not kept or not bool((values[kept] <= values[place]).all(1).any()):
            kept.append(place)
    return [ordered[place] for place in kept]
