"""Find layers that are alike, to be run on the same hardware one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch.fx import Node

from mase_hw.errors import EmissionError
from mase_hw.graph.laps import ROLE, is_lap, laps_of
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import SoftwareMetadata, ValueRange, common, metadata, update
from mase_hw.graph.streams import consumers, refresh_output, stream_operands
from mase_hw.ops import operator_for
from mase_hw.passes._insert import insert_after

Slot = tuple[Node, str]


def insert_laps_transform_pass(
    mg: MaseGraph, pass_args: Mapping[str, Any] | None = None
) -> tuple[MaseGraph, dict[str, Any]]:
    """Insert a lap before, between and behind layers that are alike.

    Layers follow each other, and one stream alone leads from one to the next. They are alike where
    they compute the same with other constants. Of several choices that is taken which leaves most
    constants and nodes to shared hardware.

    Args:
        mg: a canonical graph with common metadata.
        pass_args: none are known.

    Returns:
        The graph, and `{"layers": the number of layers, "laps": names of the inserted nodes}`.

    Raises:
        EmissionError: where no two layers are alike.
    """
    mg = mg.copy()
    cuts = _cuts(mg)
    best = _best(_segments(mg, cuts))
    if best is None:
        raise EmissionError(
            f"{mg.name} has no layers for reuse: none that follow each other and are alike in "
            "operators, shapes and formats, with one stream alone from one to the next (a mask, "
            "or a result that skips layers, is another one), without results that leave the "
            "model from inside and without caches; emit it without reuse"
        )
    laps = []
    for number in range(best.count + 1):
        end = cuts[best.start + number * best.period]
        given = common(end).results["data_out_0"]
        users = [user for user in end.users if number or user.op != "output"]
        lap = insert_after(mg, end, ROLE, given, given)
        for user in users:
            user.replace_input_with(end, lap)
        laps.append(lap)
    refresh_output(mg)
    mg.recompile()
    return mg, {"layers": best.count, "laps": [lap.name for lap in laps]}


def share_ranges_analysis_pass(
    mg: MaseGraph, pass_args: Mapping[str, Any] | None = None
) -> tuple[MaseGraph, dict[str, Any]]:
    """Give nodes at the same place of layers that are alike the values of all of them.

    Formats that are fitted to them are then the same in all layers.

    Args:
        mg: a graph with laps and software metadata.
        pass_args: none are known.

    Returns:
        The graph, and `{"layers": the number of layers}`.
    """
    mg = mg.copy()
    laps = laps_of(mg)
    if laps is None:
        return mg, {"layers": 1}
    groups: list[list[Slot]] = []
    for nodes in laps.places:
        names = [*common(nodes[0]).operands, *common(nodes[0]).results]
        groups += [[(node, name) for node in nodes] for name in names]
        for node in nodes:
            update(node, alike=tuple(item.name for item in nodes))
    groups.append(list(_at_laps(laps.laps)))
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
    return mg, {"layers": len(laps.layers)}


def _at_laps(laps: Sequence[Node]) -> Iterator[Slot]:
    """Yield what carries the values at laps: results before them, and operands behind."""
    for lap in laps:
        yield from ((lap, "data_in_0"), (lap, "data_out_0"))
        yield stream_operands(lap)[0][1], "data_out_0"
        yield from consumers(lap)


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
        size: nodes, and elements of constants.
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
            if count > 1 and better:
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


def _cuts(mg: MaseGraph) -> list[Node]:
    """Return the nodes whose result alone leads on, in graph order."""
    nodes = [node for node in mg.nodes if node.op in ("placeholder", "call_function")]
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


def _segments(mg: MaseGraph, cuts: Sequence[Node]) -> list[_Segment]:
    nodes = [node for node in mg.nodes if node.op in ("placeholder", "call_function")]
    place = {node: number for number, node in enumerate(nodes)}
    kinds: list[Any] = []
    found = []
    for begin, end in pairwise(cuts):
        inside = nodes[place[begin] + 1 : place[end] + 1]
        kind = common(begin).results, [_kind(mg, begin, inside, node) for node in inside]
        if kind not in kinds:
            kinds.append(kind)
        leaving = [any(user.op == "output" for user in node.users) for node in inside]
        whole = all(map(_may_repeat, inside)) and not any(leaving[:-1])
        size = sum(1 + _elements(mg, node) for node in inside)
        found.append(_Segment(kinds.index(kind), size, leaving[-1], whole))
    return found


def _may_repeat(node: Node) -> bool:
    operator = operator_for(node.target) if node.op == "call_function" else None
    return operator is not None and not operator.keeps_state and not is_lap(node)


def _elements(mg: MaseGraph, node: Node) -> int:
    return sum(mg.constant(item).numel() for item in node.all_input_nodes if item.op == "get_attr")


def _kind(mg: MaseGraph, begin: Node, inside: Sequence[Node], node: Node) -> list[Any]:
    """Return what decides whether a node is like another one of another segment."""
    places = {begin: -1} | {item: number for number, item in enumerate(inside)}

    def known(item: Node) -> Any:
        if item.op == "get_attr":
            value = mg.constant(item)
            return "constant", tuple(value.shape), str(value.dtype)
        return "stream", places.get(item, str(item))

    arguments = torch.fx.map_arg((node.args, node.kwargs), known)
    specs = common(node)
    options = dict(specs.options)
    return [node.op, node.target, arguments, specs.operands, specs.results, options]
