"""Layers that are alike and run on the same hardware, and the graph of what is there once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from torch.fx import Node

from mase_hw.cells import Netlist, NetlistBuilder, Port, Wire, in_turn
from mase_hw.cells.lap_entry import LapEntry
from mase_hw.cells.lap_exit import LapExit
from mase_hw.cells.stream_fifo import StreamFifo
from mase_hw.errors import EmissionError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import common, location
from mase_hw.graph.reference import spec
from mase_hw.graph.streams import stream_operands
from mase_hw.ops import operator_for

ROLE = "lap"
FEEDBACK = "feedback"


@dataclass(frozen=True)
class Laps:
    """Layers between laps.

    Attributes:
        laps: the nodes before, between and behind the layers.
        layers: the nodes of each, in graph order.
    """

    laps: tuple[Node, ...]
    layers: tuple[tuple[Node, ...], ...]

    @property
    def twins(self) -> dict[Node, tuple[Node, ...]]:
        """By node of a layer, the nodes at its place in all layers."""
        found: dict[Node, tuple[Node, ...]] = {}
        for nodes in self.places:
            found |= dict.fromkeys(nodes, nodes)
        return found

    @property
    def places(self) -> list[tuple[Node, ...]]:
        """The nodes at each place of all layers."""
        return list(zip(*self.layers, strict=True))

    @property
    def first(self) -> frozenset[Node]:
        """The nodes of the layer whose hardware is there."""
        return frozenset(self.layers[0])

    @property
    def others(self) -> frozenset[Node]:
        """What has no hardware of its own: the other layers, and the laps between."""
        rest = {node for layer in self.layers[1:] for node in layer}
        return frozenset(rest | set(self.laps[1:-1]))


def is_lap(node: Node) -> bool:
    """Return whether a node is the place between two layers."""
    operator = operator_for(node.target) if node.op == "call_function" else None
    return operator is not None and operator.role == ROLE


def laps_of(mg: MaseGraph) -> Laps | None:
    """Return the layers of a graph that run on the same hardware, None where there are none.

    Raises:
        EmissionError: where a pass made them differ.
    """
    laps = [node for node in mg.nodes if is_lap(node)]
    if len(laps) < 3:
        return None
    place = {node: number for number, node in enumerate(mg.nodes)}
    layers = []
    for begin, end in pairwise(laps):
        nodes, open_ = set[Node](), [end.all_input_nodes[0]]
        while open_:
            node = open_.pop()
            if node is not begin and node not in nodes and node.op == "call_function":
                nodes.add(node)
                open_ += [producer for _, producer in stream_operands(node)]
        layers.append(tuple(sorted(nodes, key=place.__getitem__)))
    found = Laps(tuple(laps), tuple(layers))
    for number, layer in enumerate(layers[1:], 1):
        difference = differing(found, number)
        if difference:
            raise EmissionError(
                f"layers that are to run on the same hardware differ: {difference} "
                f"({location(layer[0] if layer else laps[number])}); quantize the model with "
                "reuse=True and formats that are alike in all of them"
            )
    return found


def differing(laps: Laps, number: int) -> str:
    """Return how a layer differs from the first, in words; empty where it does not."""
    first, other = laps.layers[0], laps.layers[number]
    if len(first) != len(other):
        return f"the first has {len(first)} nodes, layer {number + 1} has {len(other)}"
    places = [
        {node: place for place, node in enumerate((laps.laps[layer], *laps.layers[layer]))}
        for layer in (0, number)
    ]
    for one, two in zip(first, other, strict=True):
        known = [common(one), common(two)]
        if known[0].operator != known[1].operator:
            return f"{one.name} is {known[0].operator}, {two.name} is {known[1].operator}"
        for kind in ("operands", "results"):
            mine, theirs = (getattr(item, kind) for item in known)
            for name in mine:
                if mine[name] != theirs.get(name):
                    return f"{name} of {one.name} is {mine[name]}, of {two.name} {theirs.get(name)}"
        inputs = [
            [(name, places[side].get(producer)) for name, producer in stream_operands(node)]
            for side, node in enumerate((one, two))
        ]
        if inputs[0] != inputs[1] or (None in [place for _, place in inputs[0]]):
            return f"{one.name} and {two.name} do not take what stands at the same place"
    return ""


@dataclass
class _Turns:
    """What a graph of hardware says of its layers."""

    entry: str
    exit: str
    count: int
    inside: frozenset[str]
    netlists: Mapping[str, Netlist] = field(default_factory=dict)


class PhysicalGraph(MaseGraph):
    """The part of a graph that becomes hardware: of layers that are alike, the first.

    It is for timing, estimates and emission. What it computes is what the whole graph says.
    """

    turns: _Turns

    @property
    def entry(self) -> Node:
        """Where activations enter the layer."""
        return self.node(self.turns.entry)

    @property
    def exit(self) -> Node:
        """Where they leave it."""
        return self.node(self.turns.exit)

    @property
    def count(self) -> int:
        """Layers that run on the hardware of one."""
        return self.turns.count

    def rounds(self, node: Node) -> int:
        """Return how often the cells of a node compute in one inference."""
        return self.turns.count if node.name in self.turns.inside else 1

    def netlist(self, node: Node, *args: object, **kwargs: object) -> Netlist:
        """Return the cells of a node, for all layers."""
        return self.turns.netlists[node.name]


def physical(mg: MaseGraph) -> MaseGraph:
    """Return the part of a graph that becomes hardware: the graph itself where all of it does."""
    laps = None if isinstance(mg, PhysicalGraph) else laps_of(mg)
    if laps is None:
        return mg
    twins = laps.twins
    netlists = {}
    for node in mg.nodes:
        if node.op != "call_function" or node in laps.others:
            continue
        netlists[node.name] = mg.netlist(node)
        if node in laps.first:
            netlists[node.name] = _shared(mg, twins[node])
    entry, exit_ = laps.laps[0], laps.laps[-1]
    port, count = Port.of(spec(entry)), len(laps.layers)
    netlists[entry.name] = _entry(port, count)
    netlists[exit_.name] = _exit(port, count)
    copy = mg.copy()
    last = copy.node(laps.laps[1].all_input_nodes[0].name)
    copy.node(exit_.name).args = (last,)
    copy.fx_graph.eliminate_dead_code()
    copy.recompile()
    found = PhysicalGraph(
        copy.model,
        name=mg.name,
        batched=mg.batched,
        example_inputs=mg.example_inputs,
        frozen=mg.frozen,
    )
    inside = frozenset(node.name for node in laps.first)
    found.turns = _Turns(entry.name, exit_.name, count, inside, netlists)
    return found


def _shared(mg: MaseGraph, nodes: Sequence[Node]) -> Netlist:
    """Return the cells that do for each of several nodes in turn what its own would."""
    calls = [mg.call(node) for node in nodes]
    same = {
        name
        for name in calls[0].constants
        if all(call.constants[name].equal(calls[0].constants[name]) for call in calls[1:])
    }
    try:
        return in_turn([mg.netlist(node) for node in nodes], same)
    except EmissionError as error:
        raise EmissionError(f"{nodes[0].name} ({location(nodes[0])}): {error}") from None


def _entry(port: Port, count: int) -> Netlist:
    """Return what sends activations into the layer: new ones, then those that come back."""
    back = Port(port.fields, port.beats * (count - 1))
    net = NetlistBuilder({"data_in_0": port, FEEDBACK: back})
    # All activations may wait: none enters the next layer before the last one entered this one.
    waiting = net.add(StreamFifo(back, port.beats), "waiting", data_in=net.input(FEEDBACK))
    cell = LapEntry(port, port.beats, count)
    first = net.add(cell, data_in=net.input("data_in_0"), feedback=waiting)
    return net.netlist(data_out_0=first)


def _exit(port: Port, count: int) -> Netlist:
    """Return what sends activations back, or on behind the last layer."""
    inputs = {"data_in_0": Port(port.fields, port.beats * count)}
    net = NetlistBuilder(inputs)
    out = net.add(LapExit(port, port.beats, count), data_in=net.input("data_in_0"))
    return net.netlist(data_out_0=out, **{FEEDBACK: Wire(out.cell, FEEDBACK)})
