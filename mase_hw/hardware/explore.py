"""Parallelism for a target: the least resources for a rate, or the best rate for resources.

Every node has candidates: a parallelism of each of its streams, elements of its constants a cycle,
and of what the memories of its constants are made, with the cycles of their netlist and what they
are estimated to take. Streams that meet have
one parallelism. A `Problem` has one candidate of each node.

Resources are weighed as `Estimate.weighed` says. What is put between nodes afterwards, such as
queues, is not among the candidates: budgets are checked against the whole design, and where it
takes more, candidates are chosen anew for as much less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial, reduce
from itertools import product
from operator import add
from typing import Any

from mase_hw._config_file import config_text
from mase_hw._kinds import Table
from mase_hw.cells import Device, Netlist, RomSource
from mase_hw.errors import ParallelismError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.memory import AUTO, BLOCK, GENERIC, LOGIC, ON_CHIP
from mase_hw.hardware.estimate import Estimate, estimate, of_cells
from mase_hw.passes.hardware.broadcast import insert_broadcasts_transform_pass
from mase_hw.passes.hardware.end_rows import end_rows_analysis_pass
from mase_hw.passes.hardware.hardware_metadata import add_hardware_metadata_analysis_pass
from mase_hw.passes.hardware.memory import NODE_STYLE, Memory, place_constants, split_styles
from mase_hw.passes.hardware.orders import assign_orders_transform_pass
from mase_hw.passes.hardware.parallelism import Choice, Space, parallelism_space
from mase_hw.passes.hardware.problem import STEPS, Problem, steps, undominated

# Of many sizes those are tried that are so much larger than the one before.
GROWTHS = (1.0, 1.3, 1.7, 2.2, 3.0)
MOST_CANDIDATES = 60_000
# How often candidates are chosen anew where the whole design takes more than a budget.
ROUNDS = 6


@dataclass(frozen=True)
class Targets:
    """Bounds of a design, as a table `parallelism` has them.

    Attributes:
        target_interval: cycles from one inference to the next, at most.
        target_fps: inferences a second, at least, at `clock`.
        clock: MHz.
        max_lut: look-up tables at most.
        max_dsp: DSP blocks at most.
        max_bram: block RAMs at most.

    Raises:
        ParallelismError: for a number that is none, a rate without its clock, or a contradiction.
    """

    target_interval: int | None = None
    target_fps: float | None = None
    clock: float | None = None
    max_lut: int | None = None
    max_dsp: int | None = None
    max_bram: float | None = None

    def __post_init__(self) -> None:
        for key, value in vars(self).items():
            if value is None:
                continue
            least = 0 if key.startswith("max") else 1e-9
            if isinstance(value, bool) or not isinstance(value, int | float) or value < least:
                raise ParallelismError(f"{key} is {value!r}; allowed: a positive number")
        if (self.target_fps is None) != (self.clock is None):
            pair = ["target_fps", "clock"]
            present, missing = pair if self.clock is None else pair[::-1]
            raise ParallelismError(f"{present} is given without {missing}: a rate needs both")
        if len({self.target_interval, self._cycles_of_rate} - {None}) > 1:
            raise ParallelismError(
                f"target_interval {self.target_interval} and target_fps {self.target_fps:g} at "
                f"{self.clock:g} MHz, which is {self._cycles_of_rate} cycles, contradict each "
                "other: give one of them"
            )

    @property
    def _cycles_of_rate(self) -> int | None:
        if self.target_fps is None or self.clock is None:
            return None
        return math.floor(self.clock * 1e6 / self.target_fps)

    @property
    def cycles(self) -> int | None:
        """The largest interval that is allowed."""
        return self.target_interval if self.target_interval is not None else self._cycles_of_rate

    @property
    def budgets(self) -> dict[str, float]:
        """The most of each resource, by its name."""
        budgets = {"lut": self.max_lut, "dsp": self.max_dsp, "bram": self.max_bram}
        return {name: float(value) for name, value in budgets.items() if value is not None}


def split_targets(asked: object) -> tuple[Any, Targets | None]:
    """Return a parallelism without its targets, and the targets; None where it has none.

    Raises:
        ParallelismError: for targets of a parallelism that is not `auto`.
    """
    if not isinstance(asked, Mapping):
        return asked, None
    names = {item.name for item in fields(Targets)}
    bounds = {key: value for key, value in asked.items() if key in names}
    if not bounds:
        return asked, None
    rest = {key: value for key, value in asked.items() if key not in names}
    if rest.get("default", "auto") != "auto":
        raise ParallelismError(
            f"{next(iter(bounds))} chooses the parallelism, and default is {rest['default']!r}; "
            "allowed beside it: auto"
        )
    return {**rest, "default": "auto"}, Targets(**bounds)


@dataclass(frozen=True)
class Candidate:
    """One way to make a node.

    Attributes:
        lanes: values of the groups of lanes that it sees.
        unrolled: elements of its constants a cycle.
        cycles: of an inference.
        cost: in whole look-up tables and halves of block RAMs.
        style: of what its memories of constants are made.
    """

    lanes: tuple[int, ...]
    unrolled: Mapping[str, int]
    cycles: int
    cost: Estimate
    style: str = AUTO


@dataclass(frozen=True)
class Plan:
    """A parallelism of every node.

    Attributes:
        table: the table of `parallelism`, with the styles of memories that are not `auto`.
        interval: cycles from one inference to the next.
        cost: of all nodes, estimated.
        gap: how much less may be possible at most, of the cost; 0 where this is proved best.
        slowest: the node that decides the interval.
    """

    table: Table
    interval: int
    cost: Estimate
    gap: float = 0.0
    slowest: str = ""

    def to_dict(self) -> dict[str, object]:
        """Return everything, with the table."""
        resources = {name: getattr(self.cost, name) for name in STEPS}
        entries = {"interval": self.interval, **resources, "gap": self.gap, "slowest": self.slowest}
        return {**entries, "parallelism": self.table}

    def to_toml(self, name: str) -> str:
        """Return the table as text that a configuration file may hold."""
        cost = self.cost
        return config_text(
            {"parallelism": self.table},
            [
                f"Parallelism of {name}: {self.interval} cycles an inference; nodes alone are",
                f"estimated at {cost.lut} LUT, {cost.dsp} DSP, {cost.bram:g} BRAM.",
            ],
        )


@dataclass(frozen=True)
class Explorer:
    """Candidates of a graph, and the choice among them.

    Attributes:
        space: the parallelisms of the graph.
        candidates: of each node, less those that others are never worse than.
        count: candidates of all nodes that were built.
    """

    space: Space
    candidates: Sequence[Sequence[Candidate]]
    count: int

    @classmethod
    def of(
        cls,
        mg: MaseGraph,
        fixed: Mapping[str, object] | None = None,
        device: str = GENERIC,
        memory: Memory = ON_CHIP,
    ) -> Explorer:
        """Return the explorer of a graph with common metadata and formats.

        A table of parallelism, the device and styles of memories may be fixed.
        """
        fixed, memory = split_styles(fixed, memory)
        mg = with_orders(mg)
        space = parallelism_space(mg, fixed)
        styles, target = place_constants(mg, memory)[2], Device.of(device)
        for growth in GROWTHS:
            thin = replace(space, candidates=[_thinned(item, growth) for item in space.candidates])
            lists = [tuple(tuple(thin.candidates[g]) for g in c.groups) for c in thin.choices]
            pairs = zip(thin.choices, lists, strict=True)
            alike = {
                (choice.likeness, items): math.prod(map(len, items)) for choice, items in pairs
            }
            if sum(alike.values()) <= MOST_CANDIDATES:
                break
        measured: dict[Hashable, tuple[list[Candidate], int]] = {}
        candidates, count = [], 0
        for choice, items in zip(thin.choices, lists, strict=True):
            style = styles.get(choice.node, AUTO)
            key = choice.likeness, items, style
            if key not in measured:
                measured[key] = _candidates_of(choice, items, target, style)
            candidates.append(measured[key][0])
            count += measured[key][1]
        return cls(thin, candidates, count)

    def best(self, targets: Targets, spared: Mapping[str, float] | None = None) -> Plan:
        """Return the plan of least cost for a rate, or of the best rate.

        Of each budget, an amount is spared for other things than nodes.

        Raises:
            ParallelismError: where no plan meets the targets; it names what binds, and the nearest.
        """
        spared = spared or {}
        budgets = {name: most - spared.get(name, 0.0) for name, most in targets.budgets.items()}
        if targets.cycles is not None:
            self._check_cycles(targets.cycles)
            plan = self._least(targets.cycles, budgets)
            if plan is not None:
                return plan
        fastest = self._fastest(budgets)
        if fastest is None:
            raise ParallelismError(self._too_little(budgets))
        if targets.cycles is not None:
            raise ParallelismError(
                f"an interval of {targets.cycles:,} cycles does not fit within "
                f"{_named(targets.budgets)}: the nearest is {fastest.interval:,} cycles, where "
                f"{fastest.slowest} binds, with {fastest.cost.lut:,} LUT, {fastest.cost.dsp} DSP "
                f"and {fastest.cost.bram:g} BRAM"
            )
        return fastest

    def front(self, points: int = 12) -> list[Plan]:
        """Return plans of least cost from the slowest to the fastest interval."""
        least = self._least(None, {})
        fastest = max(min(c.cycles for c in item) for item in self.candidates)
        if least is None:
            return []
        plans = [least]
        ratio = (fastest / least.interval) ** (1 / max(points - 1, 1))
        for step in range(1, points):
            wanted = max(fastest, math.floor(least.interval * ratio**step))
            plan = self._least(wanted, {})
            if plan is not None and plan.interval < plans[-1].interval:
                plans.append(plan)
        return plans

    def _check_cycles(self, cycles: int) -> None:
        fastest = [min(c.cycles for c in item) for item in self.candidates]
        if max(fastest, default=0) > cycles:
            place = fastest.index(max(fastest))
            raise ParallelismError(
                f"an interval of {cycles:,} cycles cannot be met: "
                f"{self.space.choices[place].node} binds, which takes {fastest[place]:,} cycles "
                f"at its largest parallelism; the nearest is {fastest[place]:,}"
            )

    def _too_little(self, budgets: Mapping[str, float]) -> str:
        for name, most in budgets.items():
            amounts = [min(getattr(c.cost, name) for c in item) for item in self.candidates]
            solved = _solve(self.space, self.candidates, partial(steps, name), {})
            needed = sum(amounts if solved is None else (getattr(c.cost, name) for c in solved[0]))
            if needed > most:
                place = amounts.index(max(amounts))
                return (
                    f"max_{name} {most:g} is too little: this model takes at least {needed:g}, of "
                    f"which {self.space.choices[place].node} binds with {amounts[place]:g}; the "
                    f"nearest is max_{name} {needed:g}"
                )
        return f"no parallelism fits within {_named(budgets)} at once; raise one of them"

    def _least(self, cycles: int | None, budgets: Mapping[str, float]) -> Plan | None:
        kept = [
            [c for c in item if cycles is None or c.cycles <= cycles] for item in self.candidates
        ]
        if not all(kept):
            return None
        solved = _solve(self.space, kept, _weighed, budgets)
        return None if solved is None else self._plan(*solved)

    def _fastest(self, budgets: Mapping[str, float]) -> Plan | None:
        steps = sorted({c.cycles for item in self.candidates for c in item})
        low = max(min(c.cycles for c in item) for item in self.candidates)
        steps = [step for step in steps if step >= low]
        first, last, fastest = 0, len(steps) - 1, None
        while first <= last:
            middle = (first + last) // 2
            plan = self._least(steps[middle], budgets)
            if plan is None:
                first = middle + 1
            else:
                fastest, last = plan, middle - 1
        return fastest

    def _plan(self, chosen: Sequence[Candidate], gap: float) -> Plan:
        values = [items[0] for items in self.space.candidates]
        pairs = list(zip(self.space.choices, chosen, strict=True))
        for choice, item in pairs:
            for group, value in zip(choice.groups, item.lanes, strict=True):
                values[group] = value
        table = self.space.table(values, {choice.node: item.unrolled for choice, item in pairs})
        for choice, item in pairs:
            if item.style != AUTO:
                table.setdefault(choice.node, {})[NODE_STYLE] = item.style
        cost = reduce(add, (item.cost for item in chosen), Estimate())
        cost = Estimate(round(cost.lut), dsp=round(cost.dsp), bram=cost.bram)
        slowest = max(pairs, key=lambda pair: pair[1].cycles, default=None)
        if slowest is None:
            return Plan(table, 0, cost, gap)
        return Plan(table, slowest[1].cycles, cost, gap, slowest[0].node)


def _named(budgets: Mapping[str, float]) -> str:
    return ", ".join(f"max_{name} {value:g}" for name, value in budgets.items()) or "no budget"


def _thinned(values: Sequence[int], growth: float) -> list[int]:
    kept: list[int] = []
    for value in values:
        if not kept or value >= kept[-1] * growth or value == values[-1]:
            kept.append(value)
    return kept


def _candidates_of(
    choice: Choice, lists: Sequence[Sequence[int]], device: Device, style: str
) -> tuple[list[Candidate], int]:
    """Return the candidates of a node, and how many netlists and styles were built for them.

    Netlists of more multipliers and no fewer cycles are left out.
    """
    kept: list[Candidate] = []
    count = 0
    for lanes in product(*lists):
        netlists = sorted(
            choice.netlists(choice.call, lanes),
            key=lambda item: (item[1].busy_cycles, item[1].multipliers),
        )
        count += len(netlists)
        fewest = math.inf
        for unrolled, netlist in netlists:
            if netlist.multipliers < fewest or not netlist.multipliers:
                fewest = netlist.multipliers
                styled = list(_styled(lanes, unrolled, netlist.on(device), style))
                kept += styled
                count += len(styled) - 1
    return kept, count


def _styled(
    lanes: tuple[int, ...], unrolled: Mapping[str, int], netlist: Netlist, style: str
) -> Iterator[Candidate]:
    memories = [cell for cell in netlist.cells.values() if isinstance(cell, RomSource)]
    rest = of_cells(cell for cell in netlist.cells.values() if not isinstance(cell, RomSource))
    costs = set()
    for name in (AUTO, LOGIC, BLOCK) if memories and style == AUTO else (style,):
        item = rest + of_cells(replace(cell, style=name) for cell in memories)
        cost = Estimate(round(item.lut), dsp=item.dsp, bram=round(2 * item.bram) / 2)
        if cost not in costs:
            costs.add(cost)
            yield Candidate(lanes, unrolled, netlist.busy_cycles, cost, name)


def _solve(
    space: Space,
    candidates: Sequence[Sequence[Candidate]],
    amount: Callable[[Candidate], int],
    budgets: Mapping[str, float],
) -> tuple[list[Candidate], float] | None:
    def values(item: Candidate) -> list[float]:
        return [amount(item), *(getattr(item.cost, name) for name in budgets)]

    problem = Problem[Candidate](space.candidates)
    for choice, items in zip(space.choices, candidates, strict=True):
        by_lanes: dict[tuple[int, ...], list[Candidate]] = {}
        for item in sorted(items, key=amount):
            by_lanes.setdefault(item.lanes, []).append(item)
        kept = (undominated(group, values) for group in by_lanes.values())
        problem.add([item for group in kept for item in group], choice.groups)
    problem.bound_resources(budgets)
    chosen = problem.least(amount)
    return None if chosen is None else (chosen, problem.gap)


def _weighed(item: Candidate) -> int:
    return round(item.cost.weighed)


def with_orders(mg: MaseGraph) -> MaseGraph:
    """Return a graph whose streams have orders, ready for a parallelism."""
    mg, _ = assign_orders_transform_pass(mg)
    mg, _ = insert_broadcasts_transform_pass(mg)
    return end_rows_analysis_pass(mg)[0]


def fitting(
    explorer: Explorer, mg: MaseGraph, targets: Targets, arguments: Mapping[str, object]
) -> Plan:
    """Return the plan of an explorer whose whole design meets the targets.

    Args:
        explorer: of the graph.
        mg: a graph with common metadata and formats.
        targets: bounds, of the budgets with queues and splitters.
        arguments: of `add_hardware_metadata_analysis_pass`, but the parallelism.

    Raises:
        ParallelismError: where no plan meets the targets.
    """
    spared: dict[str, float] = {}
    for _ in range(ROUNDS):
        plan = explorer.best(targets, spared)
        if not targets.budgets:
            return plan
        asked = {**arguments, "parallelism": plan.table}
        total = estimate(add_hardware_metadata_analysis_pass(mg, asked)[0])
        excess = total.beyond(targets.budgets)
        if not excess:
            return plan
        for name, more in excess.items():
            spared[name] = spared.get(name, 0.0) + more
    raise ParallelismError(
        f"no parallelism has a whole design that fits within {_named(targets.budgets)}: "
        f"queues and splitters take {', '.join(f'{v:.0f} {k}' for k, v in spared.items())} "
        "beside the nodes; raise the budget"
    )
