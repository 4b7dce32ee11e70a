"""Formats and lanes in one problem: the least hardware for a noise and an interval, by CP-SAT.

A node's candidates are options of its operands at lanes that keep the interval, priced together.
Streams that meet have one parallelism. Beginning at a choice and a parallelism that are known, only
what is near them is tried: a few options over the range of noise, and a few lanes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mase_hw.errors import MaseError
from mase_hw.hardware.explore import Candidate, Explorer
from mase_hw.passes.hardware.parallelism import Choice, Space
from mase_hw.precision.choice import Chooser, Chosen, Pick, Problem
from mase_hw.precision.cost import Cost, cost_of_netlist, in_formats

# Options and lanes of a node that are tried.
OPTIONS, LANES = 8, 6


@dataclass(frozen=True)
class Placed(Pick):
    """Options of a node's operands at some lanes.

    Attributes:
        lanes: values of the groups of lanes that the node sees.
        unrolled: elements of its constants a cycle.
    """

    lanes: tuple[int, ...] = ()
    unrolled: Mapping[str, int] | None = None


def choose_together(
    chooser: Chooser,
    explorer: Explorer,
    interval: int,
    bound: Tensor,
    budgets: Mapping[str, float],
    begin: tuple[Chosen, Mapping[str, object]],
) -> tuple[Chosen, dict[str, object]] | None:
    """Return options and a table of parallelism of the least cost; None where none is found.

    Args:
        chooser: options by node, priced in the parallelism of `begin`.
        explorer: lanes by node, of the graph in a uniform format.
        interval: cycles of an inference, at most.
        bound: of noise, by output.
        budgets: the most of each resource.
        begin: options, and the table of parallelism that goes with them.
    """
    problem = Problem()
    lanes = [{v: problem.switch() for v in values} for values in explorer.space.candidates]
    for by_value in lanes:
        problem.model.add_exactly_one(by_value.values())
    if not _add_nodes(problem, chooser, explorer, interval, lanes, begin):
        return None
    problem.bound_resources(budgets)
    picked = problem.solved(bound)
    if picked is None:
        return None
    values = [next(v for v, x in by_value.items() if problem.is_on(x)) for by_value in lanes]
    placed = [item for item in picked if isinstance(item, Placed)]
    names = [choice.node for choice in explorer.space.choices]
    unrolled = {name: item.unrolled or {} for name, item in zip(names, placed, strict=True)}
    chosen = chooser.chosen([pick for pick in picked if pick.options])
    return chosen, explorer.space.table(values, unrolled)


def _add_nodes(
    problem: Problem,
    chooser: Chooser,
    explorer: Explorer,
    interval: int,
    lanes: Sequence[Mapping[int, object]],
    begin: tuple[Chosen, Mapping[str, object]],
) -> bool:
    """Add the candidates of all nodes; return false where one has none."""
    known, table = begin
    begun = _values(explorer.space, table)
    groups: dict[str, list[Sequence[Pick]]] = defaultdict(list)
    for group in chooser.groups:
        groups[chooser.node_of(group[0]).name].append(group)
    for choice, candidates in zip(explorer.space.choices, explorer.candidates, strict=True):
        together, *rest = groups.pop(choice.node, [()])
        near = _near(candidates, interval, [begun[place] for place in choice.groups])
        options = _options(together, known)
        placed = list(_placed(chooser, choice, near, options, interval, len(known.noise)))
        if not placed:
            return False
        _join(problem, problem.add_group(placed), placed, [lanes[place] for place in choice.groups])
        for picks in rest:
            problem.add_group(picks)
    for left in groups.values():
        for picks in left:
            problem.add_group(picks)
    return True


def _join(
    problem: Problem,
    literals: Sequence[Any],
    placed: Sequence[Placed],
    lanes: Sequence[Mapping[int, Any]],
) -> None:
    """Let candidates have the lanes that the streams of their node have."""
    for place, by_value in enumerate(lanes):
        for value, literal in by_value.items():
            pairs = zip(literals, placed, strict=True)
            using = [chosen for chosen, item in pairs if item.lanes[place] == value]
            problem.model.add(sum(using) == literal)


def _values(space: Space, table: Mapping[str, Any]) -> list[int]:
    """Return the lanes of each group in a table of parallelism."""
    found = []
    for slots, values in zip(space.slots, space.candidates, strict=True):
        entries = ((table.get(node), key) for node, key in slots)
        known = (entry.get(key) for entry, key in entries if isinstance(entry, Mapping))
        value = next((item for item in known if item is not None), table.get("default", 1))
        found.append(value if value in values else values[0])
    return found


def _near(
    candidates: Sequence[Candidate], interval: int, begun: Sequence[int]
) -> list[tuple[int, ...]]:
    """Return the cheapest lanes that keep an interval, and those that are known."""
    kept = sorted((c for c in candidates if c.cycles <= interval), key=lambda item: item.cost)
    found = list(dict.fromkeys(item.lanes for item in kept))
    return list(dict.fromkeys([tuple(begun), *found[:LANES]]))


def _options(picks: Sequence[Pick], known: Chosen) -> list[Pick]:
    """Return picks over the range of noise, the known one and its neighbours among them."""
    if len(picks) <= OPTIONS:
        return list(picks)
    places = {round(i * (len(picks) - 1) / (OPTIONS - 1)) for i in range(OPTIONS)}
    ordered = sorted(picks, key=lambda pick: float(pick.noise.sum()))
    near = [p for p in picks if all(known.options[place] == number for place, number in p.options)]
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
) -> Iterator[Placed]:
    """Yield what a node may be: each of the options at each of the lanes that keep the interval."""
    nothing = Pick((), Cost(), torch.zeros(outputs, dtype=torch.float64))
    for pick in options or [nothing]:
        # What makes its operands in these formats is the node's before.
        making = pick.cost - chooser.own_cost(pick) if pick.options else Cost()
        for values in lanes:
            best: Placed | None = None
            for unrolled, own in _priced(chooser, choice, pick, values, interval):
                cost = own + making
                if best is None or cost.weighed < best.cost.weighed:
                    best = Placed(pick.options, cost, pick.noise, values, unrolled)
            if best is not None:
                yield best


def _priced(
    chooser: Chooser, choice: Choice, pick: Pick, lanes: tuple[int, ...], interval: int
) -> Iterator[tuple[Mapping[str, int], Cost]]:
    """Yield elements of constants a cycle, and what the node takes with them."""
    call = in_formats(choice.call, chooser.named(pick)) if pick.options else choice.call
    try:
        for unrolled, netlist in choice.netlists(call, lanes):
            if netlist.busy_cycles <= interval:
                yield unrolled, cost_of_netlist(netlist)
    except MaseError:
        # Formats without hardware at these lanes.
        return
