"""Formats and lanes in one problem: the least hardware for a noise and an interval, by CP-SAT.

A node's candidates are options of its operands at lanes that keep the interval, priced together.
Streams that meet have one parallelism. Beginning at a choice and its parallelism, only
what is near them is tried: a few options over the range of noise, and a few lanes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from mase_hw.errors import MaseError
from mase_hw.hardware.estimate import Estimate, of_cells
from mase_hw.hardware.explore import Candidate, Explorer
from mase_hw.passes.hardware.parallelism import Choice, Space
from mase_hw.passes.hardware.problem import Problem
from mase_hw.precision.choice import Chooser, Chosen, Pick, cheapest
from mase_hw.precision.cost import in_formats

# Options and lanes of a node that are tried.
OPTIONS, LANES = 8, 6


def choose_together(
    chooser: Chooser,
    explorer: Explorer,
    interval: int,
    bound: Tensor,
    budgets: Mapping[str, float],
    begin: tuple[Chosen, Mapping[str, object]],
) -> tuple[Chosen, dict[str, object]] | None:
    """Return options and a table of parallelism of the least cost; None without one.

    Args:
        chooser: options by node, priced in the parallelism of `begin`.
        explorer: lanes by node, of the graph in a uniform format.
        interval: cycles of an inference, at most.
        bound: of noise, by output.
        budgets: the most of each resource.
        begin: options, and the table of parallelism that goes with them.
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
        options = _options(together, begun)
        placed.append(list(_placed(chooser, choice, near, options, interval, len(begun.noise))))
        if not placed[-1]:
            return None
        problem.add(placed[-1], choice.groups)
        for picks in rest:
            problem.add(picks)
    for left in groups.values():
        for picks in left:
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
    cheapest = list(dict.fromkeys(item.lanes for item in kept))
    return list(dict.fromkeys([tuple(begun), *cheapest[:LANES]]))


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
    outputs: int,
) -> Iterator[Pick]:
    nothing = Pick((), Estimate(), torch.zeros(outputs, dtype=torch.float64))
    for pick in options or [nothing]:
        # What makes its operands in these formats is the node's before.
        making = pick.cost - chooser.own_cost(pick) if pick.options else Estimate()
        for values in lanes:
            best: Pick | None = None
            for unrolled, own in _priced(chooser, choice, pick, values, interval):
                cost = own + making
                if best is None or cost.weighed < best.cost.weighed:
                    best = Pick(pick.options, cost, pick.noise, values, unrolled)
            if best is not None:
                yield best


def _priced(
    chooser: Chooser, choice: Choice, pick: Pick, lanes: tuple[int, ...], interval: int
) -> Iterator[tuple[Mapping[str, int], Estimate]]:
    call = in_formats(choice.call, chooser.named(pick.options)) if pick.options else choice.call
    try:
        for unrolled, netlist in choice.netlists(call, lanes):
            if netlist.busy_cycles <= interval:
                yield unrolled, of_cells(netlist.cells.values())
    except MaseError:
        # Formats without hardware at these lanes.
        return
