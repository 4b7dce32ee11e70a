"""Widen intermediate results whose default width dominates the error of an output.

A norm before its division, a variance before its root, a quotient before its arctangent: over rows
of several decades their steps decide how much of a small row is left, although the tensor itself
has lost nothing. Where a result is much worse than formats explain, what leads to it through nodes
without weights, all in the default's formats, gets the least width that keeps it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from torch.fx import Node

from mase_hw._kinds import Record, Table
from mase_hw.errors import MaseError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import common, keeps_format, metadata, shares_format, stream_operands
from mase_hw.graph.rebuild import reached
from mase_hw.passes._pass import Result
from mase_hw.passes.configuration import Configuration, with_entries
from mase_hw.passes.formats.expected_agreement import losses, ratio, source_of
from mase_hw.passes.formats.quantize import RESULT, configurable, quantize_transform_pass

_LOG = logging.getLogger(__name__)
WIDTH = "data_in_width"
# Bits more that are tried, and what they have to gain.
MORE_BITS = (4, 8, 12, 14, 16)
GAIN_DB, NEAR_DB = 2.0, 1.0

# Returns a quantised graph with its agreement, or as it is where it does not run.
Measure = Callable[[MaseGraph], MaseGraph]


def widened(
    mg: MaseGraph, config: Mapping[str, object], quantized: MaseGraph, measure: Measure
) -> MaseGraph:
    """Quantised graph whose intermediates keep its results, where wider ones do.

    Args:
        mg: the graph without formats.
        config: its configuration.
        quantized: the graph in it, measured.
        measure: measures one.
    """
    parsed = Configuration.parse(config, [node.name for node in mg.nodes])
    if not isinstance(parsed.default.get(WIDTH), int):
        return quantized
    region = _Region(mg, parsed)
    nodes = {node.name: node for node in mg.nodes}
    best, entries, seen = quantized, Record(), set[tuple[str, bool]]()
    while True:
        lost = {source_of(loss.node).name: loss for loss in losses(best)}
        # First what leads to where the loss arises, then all that is computed with it.
        steps = [(name, whole) for name in lost if name in nodes for whole in (False, True)]
        step = next((item for item in steps if item not in seen), None)
        if step is None:
            return best
        seen.add(step)
        name, whole = step
        inner = region.around(nodes[name]) if whole else region.before([nodes[name]])
        if inner:
            outputs = [*lost[name].outputs]
            best, entries = _with(mg, config, (best, entries), inner, measure, outputs)


class _Region:
    """Nodes in the default's formats that have no weights, and what they compute of each other.

    Args:
        mg: the graph without formats.
        config: its configuration.
    """

    def __init__(self, mg: MaseGraph, config: Configuration) -> None:
        self._free = {
            node
            for node in configurable(mg)
            if config.own(node.name, common(node).operator) is None
            and not _has_weights(mg, node)
            and not _is_rounded(node)
        }

    def before(self, ends: Iterable[Node]) -> dict[Node, list[str]]:
        """Operands, by node, that are computed inside on the way to some nodes."""
        operands: dict[Node, list[str]] = {}
        waiting = [node for node in ends if node in self._free]
        while waiting:
            node = waiting.pop()
            if node not in operands:
                inside = {name: self._maker(producer) for name, producer in stream_operands(node)}
                operands[node] = [name for name, maker in inside.items() if maker in self._free]
                waiting += [inside[name] for name in operands[node]]
        return {node: names for node, names in operands.items() if names}

    def around(self, node: Node) -> dict[Node, list[str]]:
        """The same of everything that is computed inside behind a node."""
        if node.op != "call_function":
            return {}
        return self.before(reached(node, lambda item: filter(self._passes, item.users)))

    def _passes(self, node: Node) -> bool:
        return node in self._free or (node.op == "call_function" and keeps_format(node))

    def _maker(self, node: Node) -> Node:
        while node.op == "call_function" and node not in self._free and keeps_format(node):
            node = stream_operands(node)[0][1]
        return node


def _is_rounded(node: Node) -> bool:
    near = [node, *(producer for _, producer in stream_operands(node))]
    return any(metadata(item).roundings for item in near)


def _has_weights(mg: MaseGraph, node: Node) -> bool:
    return any(value.numel() > 1 for value in mg.call(node).constants.values())


def _with(
    mg: MaseGraph,
    config: Table,
    before: Result,
    inner: Mapping[Node, list[str]],
    measure: Measure,
    outputs: Sequence[str],
) -> Result:
    """The graph, and all entries, with the narrowest intermediates that keep nearly most."""
    graph, known = before
    default = with_entries(config, {})["default"]["config"]
    nodes = dict(zip(graph.output_names, graph.outputs, strict=True))
    names = [nodes[name].name for name in outputs]
    tried = []
    for more in MORE_BITS:
        width = int(default[WIDTH]) + more
        entries = {**known, **_entries(default, inner, width, known)}
        try:
            wider, _ = quantize_transform_pass(mg, with_entries(config, entries))
            if not _has_hardware(wider, inner):
                continue
            wider = measure(wider)
        except MaseError as error:
            _LOG.debug("intermediates of %d bits: %s", width, error)
            continue
        tried.append((_kept(wider, names), width, wider, entries))
    best = max((item[0] for item in tried), default=-math.inf)
    if not tried or not best >= _kept(graph, names) + GAIN_DB:
        return before
    kept, width, wider, entries = next(item for item in tried if item[0] >= best - NEAR_DB)
    places = ", ".join(node.name for node in inner)
    _LOG.info("%s: %s have %d bits, which keep %.1f dB", mg.name, places, width, kept)
    return wider, entries


def _has_hardware(mg: MaseGraph, inner: Iterable[Node]) -> bool:
    nodes = {mg.node(node.name) for node in inner}
    nodes |= {user for node in nodes for user in node.users if user.op == "call_function"}
    calls = [mg.call(node) for node in nodes if common(node).operator is not None]
    return not any(call.operator.problems(call) for call in calls)


def _entries(default: Table, inner: Mapping[Node, list[str]], width: int, known: Table) -> Record:
    entries = Record()
    for node, names in inner.items():
        words = ["data_in"] if shares_format(node) else names
        entry = dict(known.get(node.name, {"config": default})["config"])
        for word in words:
            entry[f"{word}_width"] = max(width, entry.get(f"{word}_width", 0))
        if any(user.op == "output" for user in node.users) and not shares_format(node):
            entry[f"{RESULT}_width"] = default[WIDTH]
        entries[node.name] = {"config": entry}
    return entries


def _kept(mg: MaseGraph, names: Sequence[str]) -> float:
    ratios = [kept for node in mg.nodes if node.name in names and (kept := ratio(node)) is not None]
    return min(ratios, default=-math.inf)
