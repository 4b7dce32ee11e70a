"""One option for every operand: the least hardware within a noise, or the reverse, by CP-SAT.

A node's first two operands, such as data and weights, are priced together; further ones add to
that. Options that another one is never worse than are left out before.

Formats and lanes may be chosen in one problem, for a noise and an interval: a node's candidates are
then options of its operands at lanes that keep the interval. Streams that meet have one
parallelism. Only the neighbourhood of a choice and its parallelism is tried: a few options over the
range of noise, and a few lanes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import product
from operator import add
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw.errors import MaseError, UnsupportedError
from mase_hw.hardware.estimate import Estimate, of_cells
from mase_hw.hardware.explore import Candidate, Explorer
from mase_hw.passes.hardware.parallelism import Choice, Space
from mase_hw.passes.hardware.problem import Problem, undominated
from mase_hw.precision.cost import CostTable, in_formats, makers
from mase_hw.precision.noise import around, measured_options
from mase_hw.precision.space import Operand, Option

TOGETHER = 2
# Whole numbers for the solver in a bound of noise and in a look-up table; the gap to the least.
NOISE_UNITS, MOST_NOISE = 1 << 24, 1 << 40
COST_UNITS, GAP = 16, 1e-3
# Resources that a goal may bound.
BOUNDED = ("lut", "bram")
# Options and lanes of a node that are tried where both are chosen.
OPTIONS, LANES = 8, 6


@dataclass(frozen=True)
class Pick:
    """Options of some operands of a node.

    Attributes:
        options: (place of an operand, place of its option).
        cost: in these; of an operand that is priced alone, beyond that in 16 bits.
        noise: that they add, by output.
        lanes: values of the groups of lanes that the node sees, where those are chosen, too.
        unrolled: elements of the node's constants a cycle, likewise.
    """

    options: tuple[tuple[int, int], ...]
    cost: Estimate
    noise: Tensor
    lanes: tuple[int, ...] = ()
    unrolled: Mapping[str, int] = field(default_factory=dict)

    def values(self) -> list[float]:
        """Return costs and noises, by which picks are compared."""
        resources = (getattr(self.cost, name) for name in BOUNDED)
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
    """The choices of a graph, whose noise is by operand `[options, outputs]`, over the signal.

    Attributes:
        groups: picks, of each of which one is chosen: the first operands of each node together,
            then each other one by itself.

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
        return self.chosen([min(g, key=lambda p: float(p.noise.sum())) for g in self.groups])

    def coarsest(self) -> Chosen:
        """Return the options that take the least."""
        return self.chosen([min(group, key=lambda p: p.cost.weighed) for group in self.groups])

    def uniform(self) -> list[Chosen]:
        """Return choices of the same fields for all operands that have them, the coarsest first.

        Some may have no hardware.
        """
        kinds: list[list[Hashable]] = [
            [option.kind for option in item.options] for item in self._operands
        ]
        choices = []
        for kind in sorted(set.intersection(*map(set, kinds)), key=repr):
            numbers = [item.index(kind) for item in kinds]
            choices.append(Chosen(tuple(numbers), self._sum(list(enumerate(numbers)))))
        return sorted(choices, key=lambda item: -float(item.noise.max()))

    def narrow(self, names: Collection[str], chosen: Chosen) -> bool:
        """Leave out options as wide as a choice at some nodes; false where nothing would be left.

        Of a node that has hardware for its own operands, it is the consumers of its result that
        ask for too much.
        """
        narrowed = False
        for name in sorted(names):
            places = self._to_blame(name, chosen)
            widest = max((self._bits(p, chosen.options[p]) for p in places), default=0.0)
            for number, group in enumerate(self.groups):
                kept = [
                    pick
                    for pick in group
                    if all(p not in places or self._bits(p, n) < widest for p, n in pick.options)
                ]
                if kept and len(kept) < len(group):
                    self.groups[number], narrowed = kept, True
        return narrowed

    def _to_blame(self, name: str, chosen: Chosen) -> set[int]:
        own = {place for place, item in enumerate(self._operands) if item.node.name == name}
        named = self.named([(place, chosen.options[place]) for place in own])
        if own and self._costs.of(self._operands[min(own)].node, named) is None:
            return own
        return {
            place
            for place, item in enumerate(self._operands)
            if any(node.name == name for node in makers(item))
        } or own

    def _bits(self, place: int, number: int) -> float:
        return self._operands[place].options[number].number_format.bits_per_element

    def least(self, name: str) -> float:
        """Return the least of a resource that any choice takes."""
        return float(sum(min(getattr(p.cost, name) for p in group) for group in self.groups))

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
        yield undominated(joint, Pick.values)
        for place in places[TOGETHER:]:
            alone = []
            for number in range(len(self._operands[place].options)):
                picked = ((place, number),)
                cost = self._priced(node, (*joint[-1].options, *picked))
                if cost is not None:
                    alone.append(Pick(picked, cost - joint[-1].cost, self._sum(picked)))
            if alone:
                yield undominated(alone, Pick.values)

    def _together(self, node: Node, places: Sequence[int]) -> Iterator[Pick]:
        tried = [measured_options(self._operands[place]) for place in places]
        prices = {
            numbers: self._priced(node, tuple(zip(places, numbers, strict=True)))
            for numbers in product(*tried)
        }
        near = [around(self._operands[place]) for place in places]
        for numbers in product(*(range(len(self._operands[place].options)) for place in places)):
            if numbers not in prices:
                corners = list(product(*(item[n] for item, n in zip(near, numbers, strict=True))))
                costs = [cost for corner in corners if (cost := prices[corner]) is not None]
                whole = len(costs) == len(corners)
                prices[numbers] = reduce(add, costs) / len(costs) if whole else None
            cost = prices[numbers]
            if cost is not None:
                picked = tuple(zip(places, numbers, strict=True))
                yield Pick(picked, cost, self._sum(picked))

    def _priced(self, node: Node, picked: Sequence[tuple[int, int]]) -> Estimate | None:
        costs = [self._costs.of(node, self.named(picked))]
        for place, number in picked:
            if (place, number) not in self._making:
                operand = self._operands[place]
                cost = self._costs.producer_cost(operand, operand.options[number])
                self._making[place, number] = cost
            costs.append(self._making[place, number])
        parts = [item for item in costs if item is not None]
        return reduce(add, parts) if len(parts) == len(costs) else None

    def named(self, picked: Sequence[tuple[int, int]]) -> dict[str, Option]:
        """Return the options of (place of an operand, place of its option) by operand."""
        return {
            self._operands[place].name: self._operands[place].options[number]
            for place, number in picked
        }

    def _sum(self, picked: Sequence[tuple[int, int]]) -> Tensor:
        return reduce(add, (self._noise[place][number] for place, number in picked))

    def solved(self, bound: Tensor | None, budgets: Mapping[str, float]) -> Chosen | None:
        """Choose the least cost within a noise by output, without a bound the least noise."""
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

    def weighed(pick: Pick) -> int:
        return round(pick.cost.weighed * COST_UNITS)

    for output, most in enumerate(bound.tolist()):
        problem.bound(partial(_noise, most / NOISE_UNITS, output), NOISE_UNITS)
    picks = problem.least(weighed, GAP)
    if picks is None:
        return None
    problem.bound(weighed, sum(map(weighed, picks)))
    return problem.least(lambda pick: round(pick.cost.memory_bits), GAP) or picks


def _noise(unit: float, output: int | None, pick: Pick) -> int:
    noise = float(pick.noise.sum() if output is None else pick.noise[output])
    return min(math.ceil(noise / max(unit, 1e-300)), MOST_NOISE)


def choose_together(
    chooser: Chooser,
    explorer: Explorer,
    interval: int,
    bound: Tensor,
    budgets: Mapping[str, float],
    begin: tuple[Chosen, Mapping[str, object]],
) -> tuple[Chosen, dict[str, object]] | None:
    """Return options and a table of parallelism of the least cost; None without one.

    The options of the chooser are priced in the parallelism of `begin`, the lanes of the explorer
    are of the graph in a uniform format; the interval is in cycles, the noise bounded by output.
    """
    space = explorer.space
    problem, placed = Problem[Pick](space.candidates), list[list[Pick]]()
    begun, lanes = begin[0], _values(space, begin[1])
    groups: dict[str, list[Sequence[Pick]]] = defaultdict(list)
    for group in chooser.groups:
        groups[chooser.node_of(group[0]).name].append(group)
    for choice, candidates in zip(space.choices, explorer.candidates, strict=True):
        together, *rest = groups.pop(choice.node, [()])
        near = _near(candidates, interval, [lanes[place] for place in choice.groups])
        nothing = Pick((), Estimate(), torch.zeros(len(begun.noise), dtype=torch.float64))
        options = _options(together, begun) or [nothing]
        placed.append(list(_placed(chooser, choice, near, options, interval)))
        if not placed[-1]:
            return None
        problem.add(placed[-1], choice.groups)
        for picks in rest:
            problem.add(picks)
    for picks in (picks for left in groups.values() for picks in left):
        problem.add(picks)
    problem.bound_resources(budgets)
    solved = cheapest(problem, bound)
    if solved is None:
        return None
    unrolled = {
        choice.node: next(pick.unrolled for pick in solved if any(pick is item for item in items))
        for choice, items in zip(space.choices, placed, strict=True)
    }
    chosen = chooser.chosen([pick for pick in solved if pick.options])
    return chosen, space.table(problem.lanes, unrolled)


def _values(space: Space, table: Mapping[str, Any]) -> list[int]:
    """Return the value of each group of lanes in a table of parallelism."""
    lanes = []
    for slots, values in zip(space.slots, space.candidates, strict=True):
        entries = ((table.get(node), key) for node, key in slots)
        explicit = (entry.get(key) for entry, key in entries if isinstance(entry, Mapping))
        value = next((item for item in explicit if item is not None), table.get("default", 1))
        lanes.append(value if value in values else values[0])
    return lanes


def _near(
    candidates: Sequence[Candidate], interval: int, begun: Sequence[int]
) -> list[tuple[int, ...]]:
    kept = [item for item in candidates if item.cycles <= interval]
    kept.sort(key=lambda item: item.cost.weighed)
    cheapest_lanes = list(dict.fromkeys(item.lanes for item in kept))
    return list(dict.fromkeys([tuple(begun), *cheapest_lanes[:LANES]]))


def _options(picks: Sequence[Pick], begun: Chosen) -> list[Pick]:
    if len(picks) <= OPTIONS:
        return list(picks)
    places = {round(i * (len(picks) - 1) / (OPTIONS - 1)) for i in range(OPTIONS)}
    ordered = sorted(picks, key=lambda pick: float(pick.noise.sum()))
    near = [p for p in picks if all(begun.options[place] == number for place, number in p.options)]
    middle = ordered.index(near[0]) if near else 0
    places |= {max(middle - 1, 0), middle, min(middle + 1, len(ordered) - 1)}
    return [ordered[place] for place in sorted(places)]


def _placed(
    chooser: Chooser,
    choice: Choice,
    lanes: Sequence[tuple[int, ...]],
    options: Sequence[Pick],
    interval: int,
) -> Iterator[Pick]:
    """Yield the cheapest netlist that keeps the interval, of each option at each lanes."""
    for pick in options:
        # What makes its operands in these formats is the node's before.
        making = pick.cost - chooser.own_cost(pick) if pick.options else Estimate()
        call = in_formats(choice.call, chooser.named(pick.options)) if pick.options else choice.call
        for values in lanes:
            placed = []
            try:
                for unrolled, netlist in choice.netlists(call, values):
                    if netlist.busy_cycles <= interval:
                        cost = of_cells(netlist.cells.values()) + making
                        placed.append(Pick(pick.options, cost, pick.noise, values, unrolled))
            except MaseError:
                # Formats without hardware at these lanes.
                pass
            if placed:
                yield min(placed, key=lambda item: item.cost.weighed)
