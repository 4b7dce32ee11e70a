"""Loops: equal layers, or steps, that run one after the other on the hardware of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch.fx import Node

from mase_hw.errors import EmissionError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import aten_arguments, common, location, stream_operands
from mase_hw.ops import TensorSpec, operator_for

ROLE, TAKE, COLLECT = "loop_boundary", "take", "collect"


@dataclass(frozen=True)
class Loop:
    """A loop over equal layers, or steps: they run one after the other on the hardware of one.

    Attributes:
        states: the loop-carried tensors; for each, the boundaries before the first layer, between
            layers, and behind the last.
        layers: the nodes of each layer, in graph order.
        collects: nodes that concatenate the results of all layers.
    """

    states: tuple[tuple[Node, ...], ...]
    layers: tuple[tuple[Node, ...], ...]
    collects: tuple[Node, ...] = ()

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.layers)

    @property
    def twins(self) -> dict[Node, tuple[Node, ...]]:
        """By node of a layer, the nodes at its place in all layers."""
        twins: dict[Node, tuple[Node, ...]] = {}
        for nodes in self.places:
            twins |= dict.fromkeys(nodes, nodes)
        return twins

    @property
    def places(self) -> list[tuple[Node, ...]]:
        """The nodes at each place of all layers."""
        return list(zip(*self.layers, strict=True))

    @property
    def first(self) -> frozenset[Node]:
        """The nodes of the layer whose hardware is there."""
        return frozenset(self.layers[0])

    @property
    def takes(self) -> tuple[Node, ...]:
        """The nodes of the first layer that take its part of a sequence."""
        return tuple(node for node in self.layers[0] if is_take(node))

    @property
    def entries(self) -> tuple[Node, ...]:
        """Where each state enters."""
        return tuple(row[0] for row in self.states)

    @property
    def ends(self) -> tuple[Node, ...]:
        """Where each state leaves the last layer."""
        return tuple(row[-1] for row in self.states)

    @property
    def others(self) -> frozenset[Node]:
        """What has no hardware of its own: the other layers, and the boundaries between."""
        rest = {node for layer in self.layers[1:] for node in layer}
        return frozenset(rest | {node for row in self.states for node in row[1:-1]})

    def goes_on(self, end: Node) -> bool:
        """True if what leaves the last layer there is read by that layer, or by all."""
        last = {*self.layers[-1], *self.collects}
        return any(user in last for user in end.users)


def is_boundary(node: Node) -> bool:
    """True if a node is the place between two layers."""
    return _role(node) == ROLE


def is_take(node: Node) -> bool:
    """True if a node takes the part of a step."""
    return _role(node) == TAKE


def is_collect(node: Node) -> bool:
    """True if a node puts results of steps one behind the other."""
    return _role(node) == COLLECT


def _role(node: Node) -> str | None:
    operator = operator_for(node.target) if node.op == "call_function" else None
    return operator.role if operator is not None else None


def twins_of(mg: MaseGraph) -> dict[Node, tuple[Node, ...]]:
    """Return, by node of layers that run on the same hardware, the nodes at its place in all."""
    return {node: nodes for loop in loops_of(mg) for node, nodes in loop.twins.items()}


def loops_of(mg: MaseGraph) -> tuple[Loop, ...]:
    """Return the layers of a graph that run on the same hardware, loop by loop.

    Raises:
        EmissionError: where a pass made them differ.
    """
    states: dict[int, dict[int, list[Node]]] = {}
    collects: dict[int, list[Node]] = {}
    place = {node: number for number, node in enumerate(mg.nodes)}
    for node in place:
        if is_boundary(node):
            given = aten_arguments(node)
            states.setdefault(given["loop"], {}).setdefault(given["state"], []).append(node)
        elif is_collect(node):
            collects.setdefault(aten_arguments(node)["loop"], []).append(node)
    loops = []
    for loop, rows_of in states.items():
        rows = [sorted(rows_of[state], key=_number) for state in sorted(rows_of)]
        if len(rows[0]) < 3:
            continue
        own = collects.get(loop, [])
        layers = [
            tuple(sorted(_layer(rows, own, number), key=place.__getitem__))
            for number in range(1, len(rows[0]))
        ]
        item = Loop(tuple(map(tuple, rows)), tuple(layers), tuple(own))
        _check(item)
        loops.append(item)
    return tuple(loops)


def _number(boundary: Node) -> int:
    number: int = aten_arguments(boundary)["number"]
    return number


def _layer(states: Sequence[Sequence[Node]], collects: Sequence[Node], number: int) -> set[Node]:
    ends = {row[number] for row in states}
    stop = {row[number - 1] for row in states}
    nodes, open_ = set[Node](), list(ends)
    open_ += [stream_operands(node)[number - 1][1] for node in collects]
    while open_:
        node = open_.pop()
        if node in nodes or node in stop or node.op != "call_function":
            continue
        if node not in ends:
            nodes.add(node)
        if not is_take(node):
            open_ += [producer for _, producer in stream_operands(node)]
    return nodes


def _check(loop: Loop) -> None:
    for number, layer in enumerate(loop.layers[1:], 1):
        difference = differing(loop, number)
        if difference:
            raise EmissionError(
                f"layers that are to run on the same hardware differ: {difference} "
                f"({location(layer[0] if layer else loop.states[0][number])}); quantize the model "
                "with reuse=True and formats that are alike in all of them"
            )


def differing(loop: Loop, number: int) -> str:
    """Return how a layer differs from the first, in words; empty where it does not."""
    first, other = loop.layers[0], loop.layers[number]
    if len(first) != len(other):
        return f"the first has {len(first)} nodes, layer {number + 1} has {len(other)}"
    places = []
    for layer in (0, number):
        known: list[Node] = [row[layer + side] for side in (0, 1) for row in loop.states]
        places.append({node: place for place, node in enumerate([*known, *loop.layers[layer]])})
    for one, two in zip(first, other, strict=True):
        specs = [common(one), common(two)]
        if specs[0].operator != specs[1].operator:
            return f"{one.name} is {specs[0].operator}, {two.name} is {specs[1].operator}"
        for kind in ("operands", "results"):
            mine, theirs = (getattr(item, kind) for item in specs)
            for name in mine:
                if mine[name] != theirs.get(name):
                    what = _unlike(mine[name], theirs.get(name))
                    return f"{name} of {one.name} and of {two.name} {what}"
        if is_take(one):
            if one.all_input_nodes != two.all_input_nodes:
                return f"{one.name} and {two.name} do not take parts of the same"
            continue
        inputs = [
            [(name, places[side].get(producer)) for name, producer in stream_operands(node)]
            for side, node in enumerate((one, two))
        ]
        if inputs[0] != inputs[1] or (None in [place for _, place in inputs[0]]):
            return f"{one.name} and {two.name} do not take what stands at the same place"
    return ""


def _unlike(one: TensorSpec, two: TensorSpec | None) -> str:
    if two is None:
        return "differ: one is missing"
    for field in ("shape", "dtype", "format", "parallelism"):
        left, right = getattr(one, field), getattr(two, field)
        if left != right:
            return f"differ in their {field}: {left} and {right}"
    return "differ in the order of their elements"
