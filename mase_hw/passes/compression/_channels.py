"""Dependent slices of a graph's constants: channels that can be removed together.

Found by trying, not by a table of operators: another value, and a NaN, in one place of an operand
show which elements of the result depend on it (rectifiers hide values, fused attention hides NaN).
An element that depends on one channel alone carries that channel on;
one that depends on several mixes them. Channels begin where a node with a weight mixes its operand
(each index of the weight's result axis is one), and end where the next such node mixes them. What
meets element by element on the way, as in a residual sum, leaves together. A channel that is mixed
by a node without a weight, or that reaches the output, stays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw._aten import overload
from mase_hw._kinds import Argument
from mase_hw.graph.calls import tensor_arguments
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.shapes import run_with
from mase_hw.ops import Weighted, operator_for

FREE = -1
WEIGHT = "weight"


@dataclass(frozen=True)
class Slice:
    """An axis of a constant whose indices belong to channels.

    Attributes:
        constant: the `get_attr` node.
        axis: of its tensor.
        channels: int64, the channel of every index, or -1.
        begins: whether channels begin here: a weight's result axis.
        ends: whether channels end here: a weight's operand axis.
    """

    constant: Node
    axis: int
    channels: Tensor
    begins: bool = False
    ends: bool = False


@dataclass
class Channels:
    """The channels of a graph.

    Attributes:
        labels: the channel of every element of every result of one inference, or -1.
        slices: axes of constants that follow channels.
        roots: (node, number of its channel) by channel.
        blocks: elements of a channel along a root's axis, where its first reshape splits it.
    """

    labels: dict[Node, Tensor] = field(default_factory=dict)
    slices: list[Slice] = field(default_factory=list)
    roots: list[tuple[Node, int]] = field(default_factory=list)
    blocks: dict[Node, int] = field(default_factory=dict)
    _parents: list[int] = field(default_factory=list)
    _fixed: set[int] = field(default_factory=set)

    def find(self, channel: int) -> int:
        """Return the channel that stands for all that leave with `channel`."""
        while self._parents[channel] != channel:
            self._parents[channel] = self._parents[self._parents[channel]]
            channel = self._parents[channel]
        return channel

    def groups(self) -> dict[int, list[int]]:
        """Return the channels that may leave, those that leave together under one of them."""
        stay = {self.find(channel) for channel in self._fixed}
        found = defaultdict(list)
        for channel in range(len(self.roots)):
            if self.find(channel) not in stay:
                found[self.find(channel)].append(channel)
        return dict(found)

    def begin(self, node: Node, count: int) -> int:
        """Add the channels of a root and return the first."""
        first = len(self.roots)
        self.roots += [(node, number) for number in range(count)]
        self._parents += range(first, first + count)
        return first

    def join(self, left: Tensor, right: Tensor) -> None:
        """Let the channels of two results leave together where they meet."""
        both = (left >= 0) & (right >= 0) & (left != right)
        if both.any():
            for a, b in torch.unique(torch.stack([left[both], right[both]]), dim=1).T.tolist():
                self._parents[self.find(a)] = self.find(b)

    def fix(self, labels: Tensor) -> None:
        """Let the channels of a tensor stay."""
        self._fixed |= {int(channel) for channel in torch.unique(labels) if channel >= 0}


def find_channels(mg: MaseGraph) -> Channels:
    """Return the channels of a graph, as fine as they may leave.

    Where a reshape splits the features of a root in two dimensions, a channel is a block of them,
    such as a head of an attention: what is left has to be a rectangle.
    """
    first = _Tracer(mg, {}).run()
    return _Tracer(mg, first.blocks).run() if first.blocks else first


class _Tracer:
    """One walk over the graph."""

    def __init__(self, mg: MaseGraph, blocks: Mapping[Node, int]) -> None:
        self._mg = mg
        self._given = blocks
        self._values: dict[Node, Argument] = {}
        self._found = Channels()

    def run(self) -> Channels:
        run_with(self._mg, self._mg.one_inference(), self._values.__setitem__)
        for node in self._mg.nodes:
            if node.op == "output":
                for producer in node.all_input_nodes:
                    self._found.fix(self._labels(producer))
            elif node.op == "call_function":
                self._visit(node)
        self._fix_shared()
        return self._found

    def _labels(self, node: Node) -> Tensor:
        labels = self._found.labels.get(node)
        if labels is None:
            shape = getattr(self._values[node], "shape", ())
            labels = torch.full(tuple(shape), FREE)
        return labels

    def _visit(self, node: Node) -> None:
        value = self._values[node]
        streams = [item for item in node.all_input_nodes if item.op != "get_attr"]
        labelled = [item for item in streams if bool((self._labels(item) >= 0).any())]
        if not isinstance(value, Tensor) or not value.is_floating_point():
            for item in labelled:
                self._found.fix(self._labels(item))
            return
        weight = self._weight(node)
        result = torch.full(tuple(value.shape), FREE)
        for item in labelled:
            labels = self._labels(item)
            carried, mixed = self._probe(node, item, labels)
            if mixed.any():
                if weight is None or not self._end(node, weight, labels):
                    self._found.fix(labels)
                continue
            if not torch.isin(labels[labels >= 0], carried).all():
                self._found.fix(labels)
            self._found.join(result, carried)
            result = torch.where(result >= 0, result, carried)
        begins = weight is not None and not bool((result >= 0).any())
        if begins and weight is not None:
            result = self._begin(node, weight, result)
        self._found.labels[node] = result
        self._note_split(result)
        if bool((result >= 0).any()):
            self._follow(node, result, weight if begins else None)

    def _weight(self, node: Node) -> Node | None:
        """Return the constant weight of a node."""
        operator = operator_for(node.target)
        if operator is None:
            return None
        for name, item in tensor_arguments(node, operator.operand_names):
            if name == WEIGHT and isinstance(item, Node) and item.op == "get_attr":
                return item if self._mg.constant(item).dim() >= 2 else None
        return None

    def _begin(self, node: Node, weight: Node, result: Tensor) -> Tensor:
        """Label the result of a root by the indices of its weight's result axis."""
        operator = operator_for(node.target)
        assert operator is not None
        tensor = self._mg.constant(weight)
        indices = _along(tensor, Weighted.of(operator).result_axis)
        carried, mixed = self._probe(node, weight, indices)
        if mixed.any() or not bool((carried >= 0).all()):
            return result
        block = self._given.get(node, 1)
        first = self._found.begin(node, tensor.shape[Weighted.of(operator).result_axis] // block)
        return first + carried // block

    def _end(self, node: Node, weight: Node, labels: Tensor) -> bool:
        """Note the axis of the weight that takes labelled features; false when there is none."""
        operator = operator_for(node.target)
        assert operator is not None
        axes = _varying(labels)
        axis = 1 - Weighted.of(operator).result_axis
        size = self._mg.constant(weight).shape[axis]
        if len(axes) != 1 or labels.shape[axes[0]] != size:
            return False
        features = labels.movedim(axes[0], 0).reshape(size, -1)[:, 0]
        self._found.slices.append(Slice(weight, axis, features, ends=True))
        return True

    def _follow(self, node: Node, result: Tensor, root_weight: Node | None) -> None:
        """Note the constants that have the channels of the result, and what cannot follow."""
        for item in dict.fromkeys(node.all_input_nodes):
            value = self._values[item]
            if not isinstance(value, Tensor) or not value.is_floating_point():
                continue
            constant = item.op == "get_attr"
            free = torch.full(value.shape, FREE) if constant else self._labels(item)
            for axis in range(value.dim()):
                if value.shape[axis] == 1:
                    continue
                indices = _along(value, axis).where(free < 0, torch.tensor(FREE))
                channels = self._aligned(node, item, indices, result, value.shape[axis])
                if channels is None:
                    continue
                if constant:
                    begins = item is root_weight
                    self._found.slices.append(Slice(item, axis, channels, begins=begins))
                else:
                    self._found.fix(channels)

    def _aligned(
        self, node: Node, item: Node, indices: Tensor, result: Tensor, size: int
    ) -> Tensor | None:
        """Return the channel of every index of an operand's axis; None where it has several."""
        if not bool((indices >= 0).any()):
            return None
        carried, mixed = self._probe(node, item, indices)
        seen = (carried >= 0) & (result >= 0) & ~mixed
        if mixed.any() or not seen.any():
            return None
        channels = torch.full((size,), FREE)
        channels[carried[seen]] = result[seen]
        return channels if torch.equal(channels[carried[seen]], result[seen]) else None

    def _probe(self, node: Node, item: Node, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the label that every element of the result depends on, and where there are more.

        Labels are tried by the bits of their rank: `log2` runs with the bit, and as many without.
        """
        value = self._values[item]
        shape = self._values[node].shape
        none = torch.full(tuple(shape), FREE), torch.zeros(tuple(shape), dtype=torch.bool)
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return none
        known, ranks = torch.unique(labels, return_inverse=True)
        ranks = torch.where(labels >= 0, ranks, torch.tensor(FREE))
        rank = torch.zeros(tuple(shape), dtype=torch.int64)
        depends, mixed = none[1].clone(), none[1].clone()
        for bit in range(max(1, (len(known) - 1).bit_length())):
            chosen = (ranks >> bit) & 1 == 1
            one = self._spoiled(node, item, value, chosen & (labels >= 0))
            zero = self._spoiled(node, item, value, ~chosen & (labels >= 0))
            rank += one.long() << bit
            depends |= one | zero
            mixed |= one & zero
        single = depends & ~mixed
        found = known[rank.clamp(max=len(known) - 1)]
        return torch.where(single, found, torch.tensor(FREE)), mixed

    def _spoiled(self, node: Node, item: Node, value: Tensor, where: Tensor) -> Tensor:
        """Return which elements of a node's result change with these of an operand."""
        unknown = self._run(node, item, value.masked_fill(where, float("nan")))
        moved = self._run(node, item, torch.where(where, 1.5 * value + 1.0, value))
        clean: Tensor = self._values[node]
        return unknown.isnan() | (moved != clean)

    def _run(self, node: Node, item: Node, value: Tensor) -> Tensor:
        """Return a node's result with another value of one of its operands."""

        def given(other: Node) -> Argument:
            return value if other is item else self._values[other]

        with torch.no_grad():
            target = overload(node.target)
            result: Tensor = target(
                *torch.fx.map_arg(node.args, given), **torch.fx.map_arg(node.kwargs, given)
            )
        return result

    def _note_split(self, labels: Tensor) -> None:
        axes = _varying(labels)
        if len(axes) > 1:
            self._found.fix(labels)
            for channel in torch.unique(labels).tolist():
                if channel >= 0:
                    self._found.blocks.setdefault(
                        self._found.roots[channel][0], labels.shape[axes[-1]]
                    )

    def _fix_shared(self) -> None:
        """Let channels stay whose constants are read in more than one place."""
        readers: dict[int, set[Node]] = defaultdict(set)
        for node in self._mg.nodes:
            if node.op == "get_attr":
                readers[id(self._mg.constant(node))] |= set(node.users)
        for item in self._found.slices:
            if len(readers[id(self._mg.constant(item.constant))]) > 1:
                self._found.fix(item.channels)


def _along(value: Tensor, axis: int) -> Tensor:
    """Return the index of every element along an axis."""
    shape = [1] * value.dim()
    shape[axis] = -1
    return torch.arange(value.shape[axis]).reshape(shape).expand(value.shape).clone()


def _varying(labels: Tensor) -> list[int]:
    """Return the axes along which labels differ."""
    return [
        axis
        for axis in range(labels.dim())
        if labels.shape[axis] > 1 and bool((labels != labels.narrow(axis, 0, 1)).any())
    ]
