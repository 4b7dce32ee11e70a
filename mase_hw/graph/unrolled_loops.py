"""Loops over the steps of a sequence, as capture unrolled them: steps that are alike.

A step reads the state that the step before left, and its own part of sequences. Capture writes one
step behind the other, so that loops are stretches of a graph in which the same nodes come again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from torch.fx import Node
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves

from mase_hw._aten import aten
from mase_hw._kinds import Argument
from mase_hw.geometry.beats import Cycles
from mase_hw.graph.loops import is_boundary
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import aten_arguments, common, location
from mase_hw.ops import Stateful, operator_for


@dataclass(frozen=True)
class Part:
    """A part of a sequence.

    Attributes:
        source: the sequence.
        dim: the dimension of its steps.
        index: the step.
    """

    source: Node
    dim: int
    index: int


@dataclass(frozen=True)
class UnrolledLoop:
    """Steps that are alike.

    Attributes:
        steps: the nodes of each, without those that take parts, in graph order.
        takes: for each part that a step takes, the nodes that take it, step by step.
        states: for each state, what it is at the beginning, and what each step makes it.
        shared: what each step reads as it is outside the loop, for each once or step by step.
    """

    steps: tuple[tuple[Node, ...], ...]
    takes: tuple[tuple[Node, ...], ...]
    states: tuple[tuple[Node, ...], ...]
    shared: tuple[tuple[Node, ...], ...] = ()

    @property
    def size(self) -> int:
        """Elements of all states."""
        return sum(common(row[-1]).results["data_out_0"].elements for row in self.states)


@dataclass(frozen=True)
class _Stretch:
    """Places from `start` to before `stop`, each like the one `period` later."""

    start: int
    stop: int
    period: int

    @property
    def count(self) -> int:
        return (self.stop - self.start) // self.period


def _stretches(kinds: Cycles, steps: Cycles) -> list[_Stretch]:
    """Return stretches of at least two periods, those that repeat most first.

    Args:
        kinds: equal for places that are alike.
        steps: change by one, up or down, from a period to the next; negative where there are none.
    """
    stretches: list[_Stretch] = []
    for period in range(1, kinds.size // 2 + 1):
        same = kinds[period:] == kinds[:-period]
        same &= (steps[period:] < 0) | (np.abs(steps[period:] - steps[:-period]) == 1)
        edges = np.flatnonzero(np.diff(np.concatenate(([False], same, [False]))))
        stretches += [
            _Stretch(begin, end + period, period)
            for begin, end in edges.reshape(-1, 2).tolist()
            if end - begin >= period
        ]
    return sorted(stretches, key=lambda item: (-item.count * item.period, item.period, item.start))


def part_of(node: Node) -> Part | None:
    """Return the part of a sequence that a node takes, None for what does something else."""
    if node.op != "call_function" or node.target is not aten.select.int:
        return None
    given = aten_arguments(node)
    source, rank = given["self"], len(common(node).results["data_out_0"].shape) + 1
    if not isinstance(source, Node) or source.op == "get_attr" or rank < 3:
        return None
    dim = given["dim"] % rank
    size = common(source).results["data_out_0"].shape[dim]
    return Part(source, dim, given["index"] % size)


def find_loops(mg: MaseGraph) -> list[UnrolledLoop]:
    """Return the loops of a canonical graph, in graph order."""
    loops: list[UnrolledLoop] = []
    listing = _Listing(mg)
    # Where steps share what they read from outside, it is not at the same distance in all.
    for stretch in chain(listing.stretches(), listing.stretches(by_name=True)):
        loop = listing.best(stretch)
        if loop is not None:
            listing.taken.update(chain.from_iterable(loop.steps))
            loops.append(loop)
    return sorted(loops, key=lambda loop: listing.order[loop.steps[0][0]])


def unlike_steps(mg: MaseGraph) -> str:
    """Return the first difference between steps that are nearly alike, else an empty text."""
    return next(filter(None, map(_Listing(mg).difference, _Listing(mg).stretches(loose=True))), "")


class _Listing:
    """The nodes of a graph, one behind the other, without those that take parts."""

    def __init__(self, mg: MaseGraph) -> None:
        self.taken: set[Node] = set()
        self.order = {node: number for number, node in enumerate(mg.nodes)}
        self._mg = mg
        computing = [node for node in mg.nodes if node.op == "call_function"]
        parts = {node: part for node in computing if (part := part_of(node))}
        several = Counter((part.source, part.dim) for part in set(parts.values()))
        self._parts = {
            node: part for node, part in parts.items() if several[part.source, part.dim] > 1
        }
        self._nodes = [node for node in computing if node not in self._parts]
        self._place = {node: number for number, node in enumerate(self._nodes)}

    def stretches(self, *, by_name: bool = False, loose: bool = False) -> Iterator[_Stretch]:
        """Yield stretches in which the same nodes come again.

        Args:
            by_name: whether what several nodes read in the same way is known by its name, and not
                by how far before it is.
            loose: whether nodes are alike that have the same operator.
        """
        named = set(filter(_is_read_alike, self._nodes)) if by_name else set[Node]()
        if by_name and not named:
            return
        numbers: dict[str, int] = {}
        words = [
            str(node.target) if loose else repr(self._kind(node, named)) for node in self._nodes
        ]
        kinds = [numbers.setdefault(word, len(numbers)) for word in words]
        parts = ([self._parts.get(item) for item in node.all_input_nodes] for node in self._nodes)
        steps = [next((part.index for part in row if part), -1) for row in parts]
        yield from _stretches(np.array(kinds, dtype=np.int64), np.array(steps, dtype=np.int64))

    def _kind(self, node: Node, named: set[Node]) -> Argument:
        place, operator = self._place[node], operator_for(node.target)
        if operator is None or isinstance(operator, Stateful) or is_boundary(node):
            return place

        def distance(item: Node) -> str:
            if item in self._place and item not in named:
                return f"before {place - self._place[item]}"
            return str(self._name(item))

        return self._does(node), map_arg((node.args, node.kwargs), distance)

    def _does(self, node: Node) -> Argument:
        specs = common(node)
        return str(node.target), specs.operands, specs.results, dict(specs.options)

    def _name(self, item: Node) -> object:
        if item.op == "get_attr":
            value = self._mg.constant(item)
            return "constant", tuple(value.shape), str(value.dtype)
        part = self._parts.get(item)
        return ("part", part.source.name, part.dim) if part else item.name

    def difference(self, stretch: _Stretch) -> str:
        """The first difference between steps; empty where they take no parts."""
        nodes = self._nodes[stretch.start :][: stretch.count * stretch.period]
        if all(self._parts.keys().isdisjoint(node.all_input_nodes) for node in nodes):
            return ""
        for one, other in zip(nodes, nodes[stretch.period :], strict=False):
            if not self._alike(one, other):
                what = "shapes" if _others(one) == _others(other) else "constants of that line"
                return f"{one.name} and {other.name} ({location(other)}) differ in the {what}"
        return ""

    def best(self, stretch: _Stretch) -> UnrolledLoop | None:
        """Return the loop of most steps and smallest states in a stretch."""
        period, loops = stretch.period, []
        if not self.taken.isdisjoint(self._nodes[stretch.start : stretch.stop]):
            return None
        for start in range(
            stretch.start, min(stretch.start + period, stretch.stop - 2 * period + 1)
        ):
            count = (stretch.stop - start) // period
            for begin, number in ((start - period, count + 1), (start, count)):
                loop = self._loop(begin, period, number) if begin >= 0 else None
                if loop is not None:
                    loops.append(((number, -loop.size, begin), loop))
                    break
        return max(loops, key=lambda item: item[0])[1] if loops else None

    def _loop(self, start: int, period: int, count: int) -> UnrolledLoop | None:
        steps = [tuple(self._nodes[start + number * period :][:period]) for number in range(count)]
        if not self.taken.isdisjoint(chain.from_iterable(steps)):
            return None
        states: dict[int, tuple[Node, ...]] = {}
        takes: dict[tuple[Node, int, int], tuple[Node, ...]] = {}
        shared: dict[tuple[Node, ...], None] = {}
        for nodes in zip(*steps, strict=True):
            if not all(self._alike(node, nodes[-1]) for node in nodes):
                return None
            for operands in zip(*map(_operands, nodes), strict=True):
                if self._is_shared(operands, steps):
                    shared[operands] = None
                elif not self._reads(operands, steps, states, takes):
                    return None
        if not states or not takes or not self._leaves_behind(steps):
            return None
        if not all(map(_is_row, (*chain(*takes.values()), *chain(*shared), *steps[0]))):
            return None
        rows = tuple(takes.values()), tuple(states.values()), tuple(shared)
        return UnrolledLoop(tuple(steps), *rows)

    def _alike(self, one: Node, other: Node) -> bool:
        return self._does(one) == self._does(other) and _others(one) == _others(other)

    def _is_shared(self, nodes: Sequence[Node], steps: Sequence[Sequence[Node]]) -> bool:
        parts = {self._parts.get(item) for item in nodes}
        if len(parts) > 1 or (None in parts and len(set(nodes)) > 1) or nodes[0].op == "get_attr":
            return False
        (part,) = parts
        source = part.source if part else nodes[0]
        return self._place.get(source, -1) < self._place[steps[0][0]]

    def _reads(
        self, nodes: tuple[Node, ...], steps: Sequence[Sequence[Node]],
        states: dict[int, tuple[Node, ...]], takes: dict[tuple[Node, int, int], tuple[Node, ...]],
    ) -> bool:  # fmt: skip
        """Note what alike nodes read at the same place; false if steps may not read it."""
        first, start = nodes[0], self._place[steps[0][0]]
        period, stop = len(steps[0]), self._place[steps[-1][-1]]
        if all(item.op == "get_attr" for item in nodes):
            return len({self._name(item) for item in nodes}) == 1
        parts = [self._parts.get(item) for item in nodes]
        if all(part is not None for part in parts):
            return self._takes([part for part in parts if part], nodes, takes, start)
        # Places in each step: the same in all are the step's own, those before are a state.
        places = [
            self._place.get(item, -1) - start - number * period for number, item in enumerate(nodes)
        ]
        if len(set(places)) == 1 and 0 <= places[0] < period:
            return True
        before = {place + period for place in places[1:]}
        (behind,) = before if len(before) == 1 else (-1,)
        begins = self._parts[first].source if first in self._parts else first
        inside = start <= self._place.get(begins, -1) <= stop
        if not 0 <= behind < period or inside or first.op == "get_attr":
            return False
        row = (first, *(step[behind] for step in steps))
        return states.setdefault(behind, row) == row

    def _takes(
        self, parts: Sequence[Part], nodes: tuple[Node, ...],
        takes: dict[tuple[Node, int, int], tuple[Node, ...]], start: int,
    ) -> bool:  # fmt: skip
        """Note that each step takes the next part of a sequence; false if it does not."""
        first, change = parts[0], parts[1].index - parts[0].index
        line = [replace(first, index=first.index + i * change) for i in range(len(parts))]
        if abs(change) != 1 or self._place.get(first.source, -1) >= start or parts != line:
            return False
        return takes.setdefault((first.source, first.dim, first.index), nodes) == nodes

    def _leaves_behind(self, steps: Sequence[Sequence[Node]]) -> bool:
        """True if all readers of results outside the loop stand behind all of its steps."""
        inside = set(chain.from_iterable(steps))
        last = self.order[steps[-1][-1]]
        users = {user for node in inside for user in node.users} - inside
        return all(self.order[user] > last for user in users)


def _is_row(node: Node) -> bool:
    shape = common(node).results["data_out_0"].shape
    return len(shape) > 1 and shape[0] == 1


def _is_read_alike(node: Node) -> bool:
    reads = Counter((str(user.target), _others(user)) for user in node.users)
    return max(reads.values(), default=0) > 1


def _others(node: Node) -> str:
    return repr(map_arg((node.args, node.kwargs), lambda item: "node"))


def _operands(node: Node) -> list[Node]:
    return [item for item in tree_leaves((node.args, node.kwargs)) if isinstance(item, Node)]
