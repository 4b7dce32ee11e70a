"""Times of sampled beats in loops, layers that share hardware."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from torch.fx import Node

from mase_hw.cells import Curve, Netlist, sampled
from mase_hw.graph.laps import Laps, is_take
from mase_hw.graph.physical import PhysicalGraph
from mase_hw.graph.reference import output_nodes, spec
from mase_hw.graph.streams import stream_operands

# Cycles through the register of an entry or an end, and with the queue before an entry.
REGISTER_CYCLES = 2
LAP_CYCLES = 3

Netlists = Mapping[Node, Netlist]


def sketched_laps(mg: PhysicalGraph, netlists: Netlists) -> tuple[int, int]:
    """Return the latency of an inference alone, and the interval, from some beats of each tensor.

    Every layer begins as if it stood idle, and takes its beats evenly.
    """
    curves: dict[Node, Curve] = {}
    loops = {node: laps for laps in mg.turns.loops for node in _nodes(laps)}
    left = [node for node in mg.nodes if node.op == "placeholder" or node in netlists]
    interval = 1
    while left:
        for node in left:
            laps = loops.get(node)
            given = _given(laps) if laps else [item for _, item in stream_operands(node)]
            if node in curves or not all(item in curves for item in given):
                continue
            if node.op == "placeholder":
                curves[node] = Curve.even(spec(node).beats, spec(node).beats, 1)
            elif laps is None:
                curves[node] = _sketch(netlists[node], node, curves)
            else:
                interval = max(interval, _sketch_loop(mg, laps, netlists, curves))
        left = [node for node in left if node not in curves]
    return max(int(curves[node].times[-1]) for node in output_nodes(mg)), interval


def _nodes(laps: Laps) -> Iterator[Node]:
    yield from (*laps.entries, *laps.layers[0], *laps.ends, *laps.collects)


def _given(laps: Laps) -> Iterator[Node]:
    """Yield what comes from outside."""
    yield from (node.all_input_nodes[0] for node in (*laps.entries, *laps.takes))


def _sketch_loop(
    mg: PhysicalGraph, laps: Laps, netlists: Netlists, curves: dict[Node, Curve]
) -> int:
    """Add the curves of a loop; return the cycles between inferences."""
    inner = {*laps.layers[0], *laps.ends}
    inside = [node for node in mg.nodes if node in inner]
    count = max(mg.rounds(node) for node in laps.layers[0])
    busy = max(netlists[node].busy_cycles for node in laps.layers[0] if not is_take(node))
    given = {node: curves[node.all_input_nodes[0]] for node in (*laps.entries, *laps.takes)}
    results: dict[Node, list[Curve]] = {node: [] for node in laps.collects}
    starts: list[int] = []
    for number in range(count):
        for begin, end in zip(laps.entries, laps.ends, strict=True):
            beats = spec(begin).beats
            if number:
                back = curves[end.all_input_nodes[0]].times + LAP_CYCLES
                times = np.maximum(back, curves[begin].times + busy)
            else:
                times = given[begin].times + REGISTER_CYCLES
            curves[begin] = Curve(beats, times).spaced(busy / beats)
        starts.append(int(curves[laps.entries[0]].times[0]))
        for node in inside:
            if is_take(node):
                beats = spec(node).beats
                times = given[node].at(number * beats + sampled(beats))
                if number:
                    times = np.maximum(times, curves[node].times + busy)
                curves[node] = Curve(beats, times)
            elif node in laps.ends:
                times = curves[node.all_input_nodes[0]].times + REGISTER_CYCLES
                curves[node] = Curve(spec(node).beats, times)
            else:
                curves[node] = _sketch(netlists[node], node, curves)
        for node, found in results.items():
            found.append(curves[node.all_input_nodes[0]])
    for node, found in results.items():
        curves[node] = _joined(found)
    return starts[-1] - starts[0] + busy


def _joined(curves: list[Curve]) -> Curve:
    """Return streams one behind the other."""
    beats = curves[0].beats
    rounds, places = np.divmod(sampled(beats * len(curves)), beats)
    times = np.stack([curve.at(np.arange(beats)) for curve in curves])
    return Curve(beats * len(curves), times[rounds, places])


def _sketch(netlist: Netlist, node: Node, curves: Mapping[Node, Curve]) -> Curve:
    arrivals = {name: curves[producer] for name, producer in stream_operands(node)}
    return netlist.sketch(arrivals).offered
