"""Choose the parallelism: how many elements of every stream a beat holds."""

from __future__ import annotations

import contextlib
import math
from collections.abc import (
    Callable,
    Container,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, replace
from itertools import product

import torch
from torch.fx import Node

from mase_hw._checks import check_integer
from mase_hw._kinds import Record, Table
from mase_hw.cells import Netlist
from mase_hw.errors import ParallelismError
from mase_hw.formats import Format
from mase_hw.graph.loops import loops_of, twins_of
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import (
    common,
    insert_after,
    location,
    metadata,
    refresh_output,
    stream_operands,
    update,
)
from mase_hw.ops import Call, TensorSpec, Tiled, Weighted, operator_for_role
from mase_hw.passes._pass import Result, graph_pass
from mase_hw.passes.hardware._balance import Balance, Join, Option, Unit, tile_sizes
from mase_hw.registry import nearest

ROLE = "retile"
# Of re-tiling, in lanes: what stays, and elements of a row that take as much as a lane.
RETILE_WIDTH, ROW_WIDTH = 16, 64
# Of a node, numbers of lanes that are tried.
MOST_OPTIONS = 2500

Slot = tuple[Node, str, int]
Lanes = tuple[int, ...]
# A consumer, its operand, and the producer.
Edge = tuple[Node, str, Node]
# A number, `auto`, or a table.
Parallelism = int | str | Table


@dataclass
class Group:
    """Dimensions of streams that must have one parallelism.

    Attributes:
        slots: (node, operand or result name, dimension).
        size: the smallest of the dimensions, which bounds the parallelism.
        formats: number formats of the streams whose lanes these are.
        fixed: what the user asked for.
        value: what it is.
    """

    slots: list[Slot]
    size: int
    formats: list[Format] = field(default_factory=list)
    fixed: int | None = None
    value: int = 1

    def fits(self, value: int) -> bool:
        """True if every format may move so many elements of a row per beat."""
        return all(item.fits_lanes(value) for item in self.formats)

    def at_most(self, value: int) -> int:
        """Return the largest parallelism up to `value` that fits."""
        return next(item for item in range(min(value, self.size), 0, -1) if self.fits(item))

    def candidates(self) -> list[int]:
        """Return the sizes of a tile worth trying."""
        if self.fixed is not None:
            return [self.fixed]
        sizes = tile_sizes(self.size)
        if all(map(self.fits, sizes)):
            return sizes
        return [size for size in range(1, self.size + 1) if self.fits(size)]


@dataclass
class Groups:
    """A union-find over slots."""

    parent: dict[Slot, Slot] = field(default_factory=dict)
    group: dict[Slot, Group] = field(default_factory=dict)

    def add(self, slot: Slot, size: int, formats: Iterable[Format] = ()) -> None:
        """Add a slot of its own."""
        self.parent[slot] = slot
        self.group[slot] = Group([slot], size, list(formats))

    def find(self, slot: Slot) -> Group:
        """Return the group of a slot."""
        return self.group[self._root(slot)]

    def _root(self, slot: Slot) -> Slot:
        while self.parent[slot] != slot:
            self.parent[slot] = self.parent[self.parent[slot]]
            slot = self.parent[slot]
        return slot

    def compatible(self, first: Slot, second: Slot) -> bool:
        """Return false when both groups were fixed to different values, or one cannot follow."""
        a, b = self.find(first), self.find(second)
        if a is b:
            return True
        asked = [group.fixed for group in (a, b) if group.fixed is not None]
        return len(set(asked)) <= 1 and all(value <= min(a.size, b.size) for value in asked)

    def merge(self, first: Slot, second: Slot) -> None:
        """Join two groups that are compatible."""
        a, b = self._root(first), self._root(second)
        if a == b:
            return
        kept, gone = self.group[a], self.group.pop(b)
        self.parent[b] = a
        kept.slots += gone.slots
        kept.size = min(kept.size, gone.size)
        kept.formats += [item for item in gone.formats if item not in kept.formats]
        kept.fixed = kept.fixed if kept.fixed is not None else gone.fixed

    def all(self) -> Iterable[Group]:
        """Return every group once."""
        return self.group.values()


@graph_pass
def assign_parallelism_transform_pass(
    mg: MaseGraph, *, parallelism: Parallelism = 1, multipliers: int = 64
) -> Result:
    """Set the parallelism of every stream.

    Args:
        mg: a graph with common metadata and formats.
        parallelism: a number, applied to the last dimension of every stream and bounded by its
            size, and by what divides its blocks; or `auto`, the smallest interval within the
            multipliers; or a table with a `default` number and an entry per node, whose keys are
            `data_in_0_dim_0`, `data_out_0_dim_1`, ..., and `weight_dim_0` where an operator can
            take more elements of a sum per cycle than its stream brings. Where the two sides of an
            edge are asked to differ, a re-tiling node is inserted.
        multipliers: the budget of `auto`.

    Raises:
        ParallelismError: for all nodes, keys and values that are not legal; the message lists what
            is.
    """
    mg = mg.copy()
    table = parallelism if isinstance(parallelism, Mapping) else {"default": parallelism}
    default = table.get("default", 1)
    groups, nodes, unrolls, edges = _grouped(mg, table, free=default == "auto")
    if default == "auto":
        check_integer("multipliers", multipliers, 1, error=ParallelismError)
        unrolls = _balance(mg, groups, edges, unrolls, multipliers)
    else:
        _check_number("parallelism", default)
        for group in groups.all():
            only_rows = all(dim == 1 for _, _, dim in group.slots)
            group.value = group.fixed or (1 if only_rows else group.at_most(int(default)))
    _apply(mg, groups, nodes, unrolls)
    retiles = [
        _retile(mg, *edge)
        for edge in edges
        if any(groups.find(one).value != groups.find(two).value for one, two in _ends(edge))
    ]
    refresh_output(mg.model)
    mg.recompile()
    return mg, {"retiles": [node.name for node in retiles]}


def _grouped(
    mg: MaseGraph, table: Mapping[str, object], *, free: bool = False
) -> tuple[Groups, list[Node], dict[Slot, int], list[Edge]]:
    """Return the groups of lanes, the nodes, unrolled constants, and edges.

    Where `free`, both ends of an edge are free of each other if they can be.
    """
    nodes = [node for node in mg.nodes if node.op in ("placeholder", "call_function")]
    groups = Groups()
    for node in nodes:
        _add(mg, groups, node)
    unrolls = _fix(mg, groups, nodes, table)
    _tie(mg, groups, nodes)
    _tie_layers(mg, groups, unrolls)
    edges = [
        (node, name, producer)
        for node in nodes
        if node.op == "call_function"
        for name, producer in stream_operands(node)
    ]
    _join_edges(groups, edges, _free(mg, edges) if free else ())
    return groups, nodes, unrolls, edges


def _add(mg: MaseGraph, groups: Groups, node: Node) -> None:
    limits = _limits(mg, node)
    for name, spec in _streams(mg, node).items():
        for dim in (0, 1):
            size = spec.size[1 - dim]
            formats = [spec.format] if dim == 0 and spec.format is not None else []
            groups.add((node, name, dim), min(size, limits.get((name, dim), size)), formats)


def _streams(mg: MaseGraph, node: Node) -> dict[str, TensorSpec]:
    known = common(node)
    if node.op == "placeholder":
        return dict(known.results)
    operands = {name: known.operands[name] for name, _ in stream_operands(node)}
    return {**operands, **known.results}


def _limits(mg: MaseGraph, node: Node) -> dict[tuple[str, int], int]:
    if node.op == "placeholder":
        return {}
    call = mg.call(node)
    return Tiled.of(call.operator).limits(call)


def _check_number(what: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ParallelismError(f"{what} is {value!r}; allowed: a number from 1, or auto")


def _fix(
    mg: MaseGraph, groups: Groups, nodes: list[Node], table: Mapping[str, object]
) -> dict[Slot, int]:
    """Note what the table asks for; return the unrolled constants."""
    unrolls: dict[Slot, int] = {}
    problems: list[str] = []
    by_name = {node.name: node for node in nodes}
    unknown = [name for name in table if name != "default" and name not in by_name]
    if len(unknown) > 1:
        raise ParallelismError(
            f"the parallelism was made for another model: no node is called {unknown[0]!r}, nor "
            f"{len(unknown) - 1} more of those that it names; {nearest(unknown[0], by_name)}"
        )
    for name, entry in table.items():
        if name == "default":
            continue
        if name not in by_name:
            problems.append(f"parallelism: no node is called {name!r}; {nearest(name, by_name)}")
            continue
        node = by_name[name]
        legal = {
            f"{stream}_dim_{dim}": (node, stream, dim)
            for (owner, stream, dim) in groups.parent
            if owner is node
        }
        unrolled = {f"{operand}_dim_0": (node, operand, 0) for operand in _unrolling(mg, node)}
        if not isinstance(entry, Mapping):
            problems.append(
                f"parallelism of {name} is {entry!r}; "
                f"allowed: a table of {', '.join({**legal, **unrolled})}"
            )
            continue
        for key, value in entry.items():
            if key in unrolled:
                unrolls[unrolled[key]] = value
                continue
            if key not in legal:
                problems.append(
                    f"parallelism of {name}: unknown key {key!r}; "
                    f"{nearest(key, {**legal, **unrolled})}"
                )
                continue
            group = groups.find(legal[key])
            whole = [n for n in range(1, group.size + 1) if group.size % n == 0]
            if type(value) is not int or not 1 <= value <= group.size:
                problems.append(
                    f"parallelism of {name}: {key} is {value!r} at {location(node)}; "
                    f"allowed: 1 to {group.size} ({', '.join(map(str, whole))} without padding)"
                )
                continue
            group.fixed = value
    _refuse(problems)
    return unrolls


def _refuse(problems: list[str]) -> None:
    """Raise one error for all problems."""
    if len(problems) == 1:
        raise ParallelismError(problems[0])
    if problems:
        lines = "".join(f"\n  {problem}" for problem in problems)
        raise ParallelismError(f"the parallelism has {len(problems)} problems:{lines}")


def _unrolling(mg: MaseGraph, node: Node) -> Iterable[str]:
    if node.op == "placeholder":
        return ()
    call = mg.call(node)
    return Tiled.of(call.operator).unrolling(call)


def _tie(mg: MaseGraph, groups: Groups, nodes: list[Node]) -> None:
    problems: list[str] = []
    for node in nodes:
        if node.op != "call_function":
            continue
        call = mg.call(node)
        for tie in Tiled.of(call.operator).ties(call):
            slots: list[Slot] = [(node, name, dim) for name, dim in tie]
            for slot in slots[1:]:
                if not groups.compatible(slots[0], slot):
                    first, second = groups.find(slots[0]), groups.find(slot)
                    problems.append(
                        f"parallelism of {node.name} at {location(node)}: "
                        f"{slots[0][1]}_dim_{slots[0][2]} and {slot[1]}_dim_{slot[2]} must be "
                        f"equal and at most {min(first.size, second.size)}, "
                        f"not {first.fixed} and {second.fixed}"
                    )
                    continue
                groups.merge(slots[0], slot)
    _refuse(problems)


def _tie_layers(mg: MaseGraph, groups: Groups, unrolls: dict[Slot, int]) -> None:
    """Give the same lanes to layers that run on the same hardware; they may be asked of any."""
    loops = loops_of(mg)
    problems = []
    places = [nodes for loop in loops for nodes in (*loop.places, *loop.states)]
    for first, *others in places:
        for node, (name, dim) in product(others, product(_streams(mg, first), (0, 1))):
            one, two = (first, name, dim), (node, name, dim)
            if groups.compatible(one, two):
                groups.merge(one, two)
                continue
            problems.append(
                f"parallelism of {first.name} and {node.name}, which run on the same hardware: "
                f"{name}_dim_{dim} must be equal, not {groups.find(one).fixed} and "
                f"{groups.find(two).fixed}"
            )
    for nodes in places:
        asked = [
            (name, dim, value) for (node, name, dim), value in unrolls.items() if node in nodes
        ]
        unrolls |= {(node, name, dim): value for name, dim, value in asked for node in nodes}
    _refuse(problems)


def _join_edges(groups: Groups, edges: Iterable[Edge], free: Container[Edge]) -> None:
    """Tie both ends of every edge, but those that are free, and where they were asked to differ."""
    for node, name, producer in edges:
        if (node, name, producer) in free:
            continue
        ends = _ends((node, name, producer))
        if all(groups.compatible(*pair) for pair in ends):
            for pair in ends:
                groups.merge(*pair)


def _ends(edge: Edge) -> list[tuple[Slot, Slot]]:
    """Return the slots before and behind an edge, by dimension."""
    node, name, producer = edge
    return [((producer, "data_out_0", dim), (node, name, dim)) for dim in (0, 1)]


def _free(mg: MaseGraph, edges: Iterable[Edge]) -> set[Edge]:
    """Return the edges that may be re-tiled.

    Layers that share hardware would wait for what is re-tiled between them, and rows that end at
    the diagonal would be whole.
    """
    retile, shared = operator_for_role(ROLE), twins_of(mg)

    def is_free(node: Node, name: str, producer: Node) -> bool:
        streams = common(producer).results["data_out_0"], common(node).operands[name]
        if any(stream.grows or stream.quantized.name not in retile.formats for stream in streams):
            return False
        ends = (node, producer)
        return not any(end in shared or common(end).operator == retile.name for end in ends)

    return {edge for edge in edges if is_free(*edge)}


def _balance(
    mg: MaseGraph, groups: Groups, edges: Iterable[Edge], unrolls: Mapping[Slot, int], budget: int
) -> dict[Slot, int]:
    """Set the lanes of every group for the smallest interval; return the unrolled constants."""
    order = list(groups.all())
    index = {id(group): number for number, group in enumerate(order)}
    twins = twins_of(mg)
    nodes = [node for node in mg.nodes if node.op in ("placeholder", "call_function")]
    nodes = [node for node in nodes if twins.get(node, (node,))[0] is node]
    choices = {
        node: _choice(mg, node, groups, index, unrolls)
        for node in nodes
        if node.op == "call_function"
    }
    candidates = _candidates(order, choices.values())
    alike: dict[Hashable, list[Option]] = {}
    units = []
    for node in nodes:
        rounds = len(twins.get(node, "."))
        if node in choices:
            choice = choices[node]
            lists = [candidates[group] for group in choice.groups]
            key = choice.likeness, rounds, *map(tuple, lists)
            if key not in alike:
                alike[key] = _options(choice, lists, rounds)
            units.append(Unit(choice.groups, alike[key]))
        else:
            units.append(_port(node, groups, index, candidates))
    joins = []
    for edge in edges:
        row = common(edge[2]).results["data_out_0"].size[1]
        ends = [tuple(index[id(groups.find(slot))] for slot in pair) for pair in _ends(edge)]
        if any(one != two for one, two in ends):
            joins.append(Join(ends, RETILE_WIDTH + row // ROW_WIDTH))
    balance = Balance(units, candidates, joins)
    best = balance.best(budget)
    if best is None:
        raise ParallelismError(
            f"parallelism: {budget} multipliers are too few; "
            f"this model takes at least {balance.least()}"
        )
    for group, value in zip(order, best[0], strict=True):
        group.value = value
    return {
        (twin, name, 0): value
        for node, option in zip(nodes, best[1], strict=True)
        for name, value in option.unrolled.items()
        for twin in twins.get(node, (node,))
    }


def _candidates(order: Sequence[Group], choices: Iterable[Choice]) -> list[list[int]]:
    """Return the values of each group, fewer where a node would have too many options."""
    candidates = [group.candidates() for group in order]
    for choice in choices:
        while math.prod(len(candidates[group]) for group in choice.groups) > MOST_OPTIONS:
            group = max(choice.groups, key=lambda item: len(candidates[item]))
            kept = candidates[group]
            candidates[group] = [*kept[:-1:2], kept[-1]]
    return candidates


def _options(choice: Choice, lists: Sequence[Sequence[int]], rounds: int) -> list[Option]:
    options = []
    for lanes in product(*lists):
        for unrolled, netlist in choice.netlists(choice.call, lanes):
            width = sum(lanes) + sum(unrolled.values())
            work = netlist.busy_cycles * rounds
            options.append(Option(lanes, work, netlist.multipliers, width, unrolled))
    if not options:
        raise ParallelismError(f"parallelism of {choice.node}: no number of lanes is legal")
    return options


def _port(
    node: Node, groups: Groups, index: Mapping[int, int], candidates: Sequence[Sequence[int]]
) -> Unit:
    """Unit of an input, whose beats come one by one."""
    places = [index[id(groups.find((node, "data_out_0", dim)))] for dim in (1, 0)]
    stream = common(node).results["data_out_0"]
    lanes = product(*(candidates[place] for place in places))
    options = [Option(item, stream.with_parallelism(*item).beats, 0, sum(item)) for item in lanes]
    return Unit(tuple(places), options)


@dataclass(frozen=True)
class Choice:
    """What a node may be, for a search over designs.

    Attributes:
        node: its name.
        call: its operator's view of it.
        groups: places of the groups of lanes that it sees.
        netlists: from that call, or one in other formats, and their values to what the node may be:
            elements of its constants that a cycle takes, and its netlist.
        likeness: equal for nodes that are alike at equal lanes.
    """

    node: str
    call: Call
    groups: tuple[int, ...]
    netlists: Callable[[Call, Lanes], Iterator[tuple[Mapping[str, int], Netlist]]]
    likeness: Hashable


@dataclass(frozen=True)
class Space:
    """All parallelisms of a graph.

    Attributes:
        candidates: for each group of lanes, the values that it may take.
        choices: for each node with hardware, what it may be.
        slots: the keys of a table that each group of lanes decides, by node.
    """

    candidates: Sequence[Sequence[int]]
    choices: Sequence[Choice]
    slots: Sequence[Sequence[tuple[str, str]]]

    def table(self, values: Sequence[int], unrolled: Mapping[str, Mapping[str, int]]) -> Record:
        """Return the table of `parallelism` that says these lanes and unrolled constants."""
        found: Record = {"default": 1}
        for slots, value in zip(self.slots, values, strict=True):
            for node, key in slots:
                found.setdefault(node, {})[key] = value
        for node, elements in unrolled.items():
            for name, value in elements.items():
                found.setdefault(node, {})[f"{name}_dim_0"] = value
        return found


def fuller_lanes(mg: MaseGraph, node: Node) -> tuple[Option, Record] | None:
    """Return lanes at which a layer's multipliers work twice as much, or more, and their table.

    They take no more multipliers than the layer has, and no more cycles. None for a layer of whose
    multipliers at least half work at a time, or that has no better lanes.

    Args:
        mg: a graph with hardware metadata.
        node: a node of it.
    """
    call, hardware = mg.call(node), metadata(node).hardware
    operations = call.operator.operations(call) // 2
    if hardware is None or not Weighted.of(call.operator).repeats(call):
        return None
    if 2 * operations >= hardware.multipliers * hardware.work_cycles:
        return None
    groups = Groups()
    _add(mg, groups, node)
    _tie(mg, groups, [node])
    order = list(groups.all())
    choice = _choice(mg, node, groups, {id(group): place for place, group in enumerate(order)}, {})
    lists = _candidates(order, [choice])
    options = [
        item
        for item in _options(choice, [lists[group] for group in choice.groups], 1)
        if item.multipliers <= hardware.multipliers and item.work_cycles <= hardware.work_cycles
    ]
    best = min(options, key=lambda item: (item.work_cycles, item.cost), default=None)
    if best is None or 2 * best.busy > hardware.multipliers * hardware.work_cycles:
        return None
    values = dict(zip(choice.groups, best.lanes, strict=True))
    streams = {
        f"{name}_dim_{dim}": values[place]
        for place, group in enumerate(order)
        for _, name, dim in group.slots
        if group.size > 1
    }
    return best, {**streams, **{f"{name}_dim_0": value for name, value in best.unrolled.items()}}


def parallelism_space(mg: MaseGraph, table: Mapping[str, object] | None = None) -> Space:
    """Return the parallelisms that `assign_parallelism_transform_pass` may be asked for.

    Args:
        mg: a graph with common metadata and formats.
        table: what is fixed, see there.
    """
    mg = mg.copy()
    groups, nodes, unrolls, _ = _grouped(mg, {**(table or {}), "default": "auto"})
    order = list(groups.all())
    index = {id(group): number for number, group in enumerate(order)}
    choices = [
        _choice(mg, node, groups, index, unrolls) for node in nodes if node.op == "call_function"
    ]
    slots = [[(node.name, f"{name}_dim_{dim}") for node, name, dim in g.slots] for g in order]
    return Space([group.candidates() for group in order], choices, slots)


def _choice(
    mg: MaseGraph,
    node: Node,
    groups: Groups,
    index: Mapping[int, int],
    unrolls: Mapping[Slot, int],
) -> Choice:
    call = mg.call(node)
    slots = [(name, dim) for name in _streams(mg, node) for dim in (0, 1)]
    places = [index[id(groups.find((node, name, dim)))] for name, dim in slots]
    seen = tuple(dict.fromkeys(places))
    asked = {name: value for (owner, name, _), value in unrolls.items() if owner is node}
    narrow = _sized(call, {slot: groups.find((node, *slot)).fixed or 1 for slot in slots})
    for name, value in asked.items():
        _check_unroll(narrow, node, name, value)

    def netlists(call: Call, lanes: Lanes) -> Iterator[tuple[Mapping[str, int], Netlist]]:
        values = dict(zip(seen, lanes, strict=True))
        sized = _sized(
            call, {slot: values[place] for slot, place in zip(slots, places, strict=True)}
        )
        legal = Tiled.of(call.operator).unrolling(sized)
        tried = [
            [value for value in (asked[name],) if value in allowed]
            if name in asked
            else [value for value in allowed if allowed[-1] % value == 0]
            for name, allowed in legal.items()
        ]
        for chosen in product(*tried):
            unrolled = dict(zip(legal, chosen, strict=True))
            whole = _unrolled(sized, unrolled)
            # Not where lanes do not divide blocks.
            with contextlib.suppress(ParallelismError):
                yield unrolled, whole.operator.hardware(whole)

    likeness = _likeness(call), tuple(map(seen.index, places)), *sorted(asked.items())
    return Choice(node.name, call, seen, netlists, likeness)


def _likeness(call: Call) -> Hashable:
    """Key of all that decides the cycles and multipliers of a call, but its lanes."""
    attributes = sorted(call.attributes.items())
    if not all(_is_plain(value) for _, value in attributes):
        return call.name
    operands, results = tuple(call.operands.items()), tuple(call.results.items())
    return call.operator.name, operands, results, tuple(call.constants), repr(attributes)


def _is_plain(value: object) -> bool:
    """True if a value is equal to another one if both are written alike."""
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str | torch.dtype)


def _sized(call: Call, lanes: Mapping[tuple[str, int], int]) -> Call:
    """Return the call with the lanes of its streams."""

    def sized(specs: Mapping[str, TensorSpec]) -> dict[str, TensorSpec]:
        return {
            name: spec.with_parallelism(lanes[name, 1], lanes[name, 0])
            if (name, 0) in lanes
            else spec
            for name, spec in specs.items()
        }

    return replace(call, operands=sized(call.operands), results=sized(call.results))


def _unrolled(call: Call, elements: Mapping[str, int]) -> Call:
    """Return the call with the elements of its constants that a cycle takes."""
    operands = {
        name: spec.with_parallelism(1, elements[name]) if name in elements else spec
        for name, spec in call.operands.items()
    }
    return replace(call, operands=operands)


def _check_unroll(call: Call, node: Node, name: str, value: int) -> None:
    """Raise unless a cycle may take `value` elements of a constant."""
    allowed = Tiled.of(call.operator).unrolling(call)[name]
    if type(value) is not int or value not in allowed:
        count = len(allowed)
        whole = [allowed[n - 1] for n in range(1, count + 1) if count % n == 0]
        raise ParallelismError(
            f"parallelism of {node.name}: {name}_dim_0 is {value!r} at {location(node)}; "
            f"allowed: multiples of {allowed.step} up to {allowed[-1]} "
            f"({', '.join(map(str, whole))} without padding)"
        )


def _apply(mg: MaseGraph, groups: Groups, nodes: list[Node], unrolls: Mapping[Slot, int]) -> None:
    for node in nodes:
        known, streams = common(node), _streams(mg, node)
        sized = {
            name: spec.with_parallelism(
                groups.find((node, name, 1)).value, groups.find((node, name, 0)).value
            )
            for name, spec in streams.items()
        }
        update(
            node,
            common=replace(
                known,
                operands={name: sized.get(name, spec) for name, spec in known.operands.items()},
                results={name: sized[name] for name in known.results},
            ),
        )
        if node.op == "call_function":
            _unroll(mg, node, unrolls)


def _unroll(mg: MaseGraph, node: Node, unrolls: Mapping[Slot, int]) -> None:
    call = mg.call(node)
    elements = {}
    for name, allowed in Tiled.of(call.operator).unrolling(call).items():
        elements[name] = unrolls.get((node, name, 0), allowed[0])
        _check_unroll(call, node, name, elements[name])
    operands = {**common(node).operands, **_unrolled(call, elements).operands}
    update(node, common=replace(common(node), operands=operands))


def _retile(mg: MaseGraph, node: Node, name: str, producer: Node) -> Node:
    given, wanted = common(producer).results["data_out_0"], common(node).operands[name]
    if given.quantized.name not in operator_for_role(ROLE).formats:
        raise ParallelismError(
            f"parallelism of {node.name} at {location(node)}: {name} takes tiles of "
            f"{list(wanted.parallelism)} and {producer.name} gives {list(given.parallelism)}; a "
            f"stream in {given.format} cannot be re-tiled: ask for the same on both sides"
        )
    retile = insert_after(producer, ROLE, given, wanted)
    node.replace_input_with(producer, retile)
    return retile
