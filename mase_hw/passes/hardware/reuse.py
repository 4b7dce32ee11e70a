"""Find equal layers, to be run on the same hardware one after another."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch.fx import Node

from mase_hw._kinds import Argument
from mase_hw.errors import EmissionError
from mase_hw.graph.closed_loops import close_loop, repeat_rows
from mase_hw.graph.loops import ROLE, is_boundary, loops_of
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import SoftwareMetadata, ValueRange
from mase_hw.graph.nodes import (
    common,
    consumers,
    insert_after,
    location,
    metadata,
    refresh_output,
    stream_operands,
    update,
)
from mase_hw.graph.unrolled_loops import UnrolledLoop, find_loops, unlike_steps
from mase_hw.ops import Removable, Stateful, operator_for
from mase_hw.passes._pass import Result, graph_pass
from mase_hw.passes.canonical.common_metadata import add_common_metadata_analysis_pass

Slot = tuple[Node, str]


@graph_pass
def insert_loops_transform_pass(mg: MaseGraph) -> Result:
    """Insert the boundaries of equal layers or of steps of loops over time.

    Steps consume successive parts of sequences, and pass states on. Without such loops, layers are
    equal when they compute the same with other constants, chained by a single stream. What does not
    depend on the input of that stream, such as the position of a token, all of them may read. Of
    several choices the pass takes the one that shares most constants and nodes.

    Args:
        mg: a canonical graph with common metadata.

    Returns:
        The graph, and `{"layers": how many, "boundaries": names of the inserted nodes}`.

    Raises:
        EmissionError: where no two layers are alike.
    """
    mg = mg.copy()
    loops = find_loops(mg)
    if loops:
        return _with_loops(mg, loops)
    chain = _best_chain(mg)
    if chain is None:
        _merge_equal(mg)
        chain = _best_chain(mg, mg.inputs)
    if chain is None:
        raise EmissionError(f"{mg.name} has no layers for reuse: {_why(mg)}; emit it without reuse")
    read = chain.read_by_all(mg)
    if read and mg.has_formats:
        raise EmissionError(
            f"{mg.name} has layers that all read {read[0].name} ({location(read[0])}), and get "
            "their formats together with it: give the captured model"
        )
    for node in read:
        repeat_rows(mg, chain.layers(mg), (node,) * chain.run.count)
    best, cuts, boundaries = chain.run, chain.cuts, []
    for number in range(best.count + 1):
        end = cuts[best.start + number * best.period]
        given = common(end).results["data_out_0"]
        users = [user for user in end.users if number or user.op != "output"]
        boundary = insert_after(end, ROLE, given, given, (0, 0, number))
        for user in users:
            user.replace_input_with(end, boundary)
        boundaries.append(boundary)
    refresh_output(mg.model)
    mg.recompile()
    if read:
        mg, _ = add_common_metadata_analysis_pass(mg, {})
    return mg, {"layers": best.count, "boundaries": [node.name for node in boundaries]}


def _with_loops(mg: MaseGraph, loops: Sequence[UnrolledLoop]) -> Result:
    """Return the graph with the steps of loops between boundaries."""
    if mg.has_formats:
        raise EmissionError(
            f"{mg.name} has loops over time, whose steps get the same formats before they can run "
            "on the same hardware: give the captured model"
        )
    boundaries = [
        boundary for number, loop in enumerate(loops) for boundary in close_loop(mg, loop, number)
    ]
    mg.recompile()
    mg, _ = add_common_metadata_analysis_pass(mg, {})
    count = max(len(loop.steps) for loop in loops)
    return mg, {"layers": count, "boundaries": [node.name for node in boundaries]}


def _why(mg: MaseGraph) -> str:
    """Reason for which a graph has no layers on the same hardware."""
    shared = [node for node in mg.nodes if len(node.users) > 1 and node.op != "get_attr"]
    for node in shared:
        cuts = _cuts(mg, {node})
        found = _best(_segments(mg, cuts, {node}))
        if found is not None and _in_all(mg, found, cuts, node):
            return (
                f"{found.count} follow each other and are alike, but all of them take {node.name} "
                f"({location(node)}), too, and one stream alone may lead from one to the next"
            )
    unlike = unlike_steps(mg)
    if unlike:
        return (
            f"steps of a loop over time are not alike: {unlike}; what changes from step to step "
            "must be a part of a sequence, a row of a tensor, or a state"
        )
    return (
        "none that follow each other and are alike in operators, shapes and formats, with one "
        "stream alone from one to the next, without results that leave the model from inside and "
        "without caches"
    )


def _in_all(mg: MaseGraph, found: _Run, cuts: Sequence[Node], node: Node) -> bool:
    """True if all layers take a result."""
    place = {item: number for number, item in enumerate(mg.nodes)}
    ends = cuts[found.start : found.start + found.count * found.period + 1 : found.period]
    return all(
        any(place[begin] < place[user] <= place[end] for user in node.users)
        for begin, end in pairwise(ends)
    )


@graph_pass
def share_ranges_analysis_pass(mg: MaseGraph) -> Result:
    """Give nodes at the same place of layers that are alike the values of all of them.

    Formats that are fitted to them are then the same in all layers.

    Args:
        mg: a graph with loop boundaries and software metadata.

    Returns:
        The graph, and `{"layers": the number of layers}`.
    """
    mg = mg.copy()
    loops = loops_of(mg)
    groups: list[list[Slot]] = []
    for nodes in (nodes for loop in loops for nodes in loop.places):
        names = [*common(nodes[0]).operands, *common(nodes[0]).results]
        groups += [[(node, name) for node in nodes] for name in names]
        for node in nodes:
            update(node, alike=tuple(item.name for item in nodes))
    for loop in loops:
        groups += [list(_at_boundaries(row)) for row in loop.states]
        groups += [list(_at_collect(node)) for node in loop.collects]
        groups += [[(node, "data_in_0"), (node, "data_out_0")] for node in loop.takes]
    for group in _joined(groups):
        found = [known for slot in group if (known := _range(slot)) is not None]
        if found:
            whole = ValueRange(
                min(item.minimum for item in found),
                max(item.maximum for item in found),
                sum(item.sparsity for item in found) / len(found),
            )
            for node, name in group:
                _note(node, name, whole)
    return mg, {"layers": max((loop.count for loop in loops), default=1)}


def _at_boundaries(boundaries: Sequence[Node]) -> Iterator[Slot]:
    """Yield what carries the values at boundaries: results before them, and operands behind."""
    for boundary in boundaries:
        yield from ((boundary, "data_in_0"), (boundary, "data_out_0"))
        yield stream_operands(boundary)[0][1], "data_out_0"
        yield from consumers(boundary)


def _at_collect(node: Node) -> Iterator[Slot]:
    """Yield what carries the values of results of steps."""
    yield node, "data_out_0"
    for name, producer in stream_operands(node):
        yield from ((node, name), (producer, "data_out_0"))


def _joined(groups: Sequence[list[Slot]]) -> Iterator[list[Slot]]:
    """Yield the groups, those with a member in common as one."""
    parts: list[dict[Slot, None]] = []
    for group in groups:
        whole = dict.fromkeys(group)
        apart = []
        for part in parts:
            if part.keys() & whole.keys():
                whole |= part
            else:
                apart.append(part)
        parts = [*apart, whole]
    yield from (list(part) for part in parts)


def _range(slot: Slot) -> ValueRange | None:
    software = metadata(slot[0]).software
    return software.ranges.get(slot[1]) if software else None


def _note(node: Node, name: str, values: ValueRange) -> None:
    known = metadata(node).software or SoftwareMetadata({}, 0)
    update(node, software=replace(known, ranges={**known.ranges, name: values}))


@dataclass(frozen=True)
class _Run:
    """Layers in a row that are alike.

    Attributes:
        start: the cut before the first.
        period: segments of a layer.
        count: layers.
        gain: what need not be there twice.
    """

    start: int
    period: int
    count: int
    gain: int


@dataclass(frozen=True)
class _Segment:
    """The nodes between two cuts.

    Attributes:
        kind: equal for segments that are alike.
        size: nodes that become hardware, and elements of constants.
        leaves: whether the result of the last node leaves the graph, too.
        whole: whether it may be a part of a layer.
    """

    kind: int
    size: int
    leaves: bool
    whole: bool


def _best(segments: Sequence[_Segment]) -> _Run | None:
    """Return the layers of the largest gain, the last of those that are equal."""
    best: _Run | None = None
    for period in range(1, len(segments) // 2 + 1):
        for start in range(len(segments) - 2 * period + 1):
            count = _repeats(segments, start, period)
            size = sum(item.size for item in segments[start : start + period])
            gain = (count - 1) * size
            better = best is None or (gain, -period) >= (best.gain, -best.period)
            if gain > 0 and better:
                best = _Run(start, period, count, gain)
    return best


def _repeats(segments: Sequence[_Segment], start: int, period: int) -> int:
    """Return how often the segments from one on come again."""
    first, count = segments[start : start + period], 0
    for begin in range(start, len(segments) - period + 1, period):
        part = segments[begin : begin + period]
        alike = [item.kind for item in part] == [item.kind for item in first]
        if not (alike and all(item.whole for item in part)):
            break
        count += 1
        if any(item.leaves for item in part[:-1]):
            return count - 1
        if part[-1].leaves:
            break
    return count


@dataclass(frozen=True)
class _Chain:
    """Layers that are alike, and what stands beside the stream that leads through them.

    Attributes:
        cuts: the nodes whose result alone leads on.
        run: the layers.
        beside: nodes that do not depend on the stream.
    """

    cuts: Sequence[Node]
    run: _Run
    beside: Collection[Node]

    def layers(self, mg: MaseGraph) -> list[list[Node]]:
        """Return the nodes of each layer."""
        run = self.run
        ends = self.cuts[run.start : run.start + run.count * run.period + 1 : run.period]
        nodes = [node for node in _computed(mg) if node not in self.beside]
        place = {node: number for number, node in enumerate(nodes)}
        return [nodes[place[begin] + 1 : place[end] + 1] for begin, end in pairwise(ends)]

    def read_by_all(self, mg: MaseGraph) -> list[Node]:
        """Return the nodes beside the stream that layers read."""
        inside = {node for layer in self.layers(mg) for node in layer}
        return [node for node in self.beside if not inside.isdisjoint(node.users)]


def _best_chain(mg: MaseGraph, starts: Sequence[Node | None] = (None,)) -> _Chain | None:
    """Return the layers of the largest gain.

    Args:
        mg: the graph.
        starts: inputs from which a stream may lead through the layers, beside what does not depend
            on it; None for one beside which there is nothing.
    """
    best: _Chain | None = None
    for start in starts:
        beside = {} if start is None else _independent(mg, start)
        cuts = _cuts(mg, beside)
        run = _best(_segments(mg, cuts, beside))
        if run is not None and (best is None or run.gain > best.run.gain):
            best = _Chain(cuts, run, beside)
    return best


def _merge_equal(mg: MaseGraph) -> None:
    """Compute once, in place, what several nodes compute of the same."""
    constants: list[Node] = []
    kept: dict[str, Node] = {}
    same: dict[Node, Node] = {}

    def known(item: Node) -> str:
        return same.get(item, item).name

    for node in mg.nodes:
        if node.op == "get_attr":
            value = mg.constant(node)
            equal = (item for item in constants if _equal(mg.constant(item), value))
            same[node] = next(equal, node)
            constants += [node] * (same[node] is node)
        elif node.op == "call_function" and not isinstance(operator_for(node.target), Stateful):
            specs = common(node)
            arguments = torch.fx.map_arg((node.args, node.kwargs), known)
            options = dict(specs.options)
            key = repr((str(node.target), arguments, specs.operands, specs.results, options))
            same[node] = kept.setdefault(key, node)
    for node, first in same.items():
        if first is not node and node.op == "call_function":
            node.replace_all_uses_with(first)
    mg.fx_graph.eliminate_dead_code()


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.dtype == other.dtype and torch.equal(one, other)


def _independent(mg: MaseGraph, start: Node) -> dict[Node, None]:
    """Return the inputs and nodes that do not depend on an input, in graph order."""
    depends = {start}
    for node in mg.nodes:
        if not depends.isdisjoint(node.all_input_nodes):
            depends.add(node)
    return {node: None for node in _computed(mg) if node not in depends}


def _computed(mg: MaseGraph) -> list[Node]:
    return [node for node in mg.nodes if node.op in ("placeholder", "call_function")]


def _cuts(mg: MaseGraph, beside: Collection[Node] = ()) -> list[Node]:
    """Return the nodes whose result alone leads on, in graph order.

    Args:
        mg: the graph.
        beside: nodes whose results may lead on beside it.
    """
    nodes = [node for node in _computed(mg) if node not in beside]
    place = {node: number for number, node in enumerate(nodes)}
    last = {
        node: max((place[user] for user in node.users if user in place), default=-1)
        for node in nodes
    }
    cuts, reach = [], -1
    for number, node in enumerate(nodes):
        if reach <= number:
            cuts.append(node)
        reach = max(reach, last[node])
    return cuts


def _segments(mg: MaseGraph, cuts: Sequence[Node], beside: Collection[Node] = ()) -> list[_Segment]:
    """Segments between cuts, as `_cuts` takes its arguments."""
    nodes = [node for node in _computed(mg) if node not in beside]
    place = {node: number for number, node in enumerate(nodes)}
    kinds: list[object] = []
    found = []
    for begin, end in pairwise(cuts):
        inside = nodes[place[begin] + 1 : place[end] + 1]
        kind = common(begin).results, [_kind(mg, begin, inside, node) for node in inside]
        if kind not in kinds:
            kinds.append(kind)
        leaving = [any(user.op == "output" for user in node.users) for node in inside]
        whole = all(map(_may_repeat, inside)) and not any(leaving[:-1])
        size = sum(1 + _elements(mg, node) for node in inside if not _vanishes(mg, node))
        found.append(_Segment(kinds.index(kind), size, leaving[-1], whole))
    return found


def _may_repeat(node: Node) -> bool:
    operator = operator_for(node.target) if node.op == "call_function" else None
    return operator is not None and not is_boundary(node)


def _vanishes(mg: MaseGraph, node: Node) -> bool:
    """True if a node acts in training alone."""
    if common(node).operator is None:
        return False
    call = mg.call(node)
    return Removable.of(call.operator).is_identity(call)


def _elements(mg: MaseGraph, node: Node) -> int:
    return sum(mg.constant(item).numel() for item in node.all_input_nodes if item.op == "get_attr")


def _kind(mg: MaseGraph, begin: Node, inside: Sequence[Node], node: Node) -> list[object]:
    """Key by which nodes of different segments are compared."""
    places = {begin: -1} | {item: number for number, item in enumerate(inside)}

    def known(item: Node) -> Argument:
        if item.op == "get_attr":
            value = mg.constant(item)
            return "constant", tuple(value.shape), str(value.dtype)
        return "stream", places.get(item, str(item))

    arguments = torch.fx.map_arg((node.args, node.kwargs), known)
    specs = common(node)
    options = dict(specs.options)
    return [node.op, node.target, arguments, specs.operands, specs.results, options]
