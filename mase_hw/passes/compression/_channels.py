"""Dependent slices of a graph's constants: channels that can be removed together.

Found by trying, not by a table of operators: another value, and a NaN, in one place of an operand
show which elements of the result depend on it (rectifiers hide values, fused attention hides NaN).
An element that depends on one channel alone carries that channel on;
one that depends on several mixes them. Channels begin where a node with a weight mixes its operand
(each index of the weight's result axis is one), and end where the next such node mixes them. What
meets element by element on the way, as in a residual sum, leaves together, and so does what a
reshape puts into one row of a rectangle, as the features of a head. A norm of rows carries channels
on: it is taken over what is left. A channel that is mixed by another node without a weight, or that
reaches the output, stays.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw._aten import overload
from mase_hw._kinds import Argument
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import aten_arguments, tensor_arguments
from mase_hw.graph.shapes import run_with
from mase_hw.ops import Normalizing, Weighted, operator_for

FREE = -1
# An index of a constant that a node does not read.
UNREAD = -2
WEIGHT = "weight"
GROUPS = "groups"


@dataclass(frozen=True)
class Slice:
    """An axis of a constant whose indices belong to channels.

    Attributes:
        constant: the `get_attr` node.
        axis: of its tensor.
        channels: int64, the channel of every index, or -1.
        reader: what takes the constant.
        begins: whether channels begin here: a weight's result axis.
        ends: whether channels end here: a weight's operand axis.
    """

    constant: Node
    axis: int
    channels: Tensor
    reader: Node
    begins: bool = False
    ends: bool = False


@dataclass
class Channels:
    """The channels of a graph.

    Attributes:
        labels: the channel of every element of every result of one inference, or -1.
        slices: axes of constants that follow channels.
        norms: nodes that are taken over the channels that are left.
        roots: (node, number of its channel) by channel.
        parts: channels one of which has to stay: of each root, and of what is cut out of a result.
        blocks: elements along a root's axis that its first reshape puts into one row.
    """

    labels: dict[Node, Tensor] = field(default_factory=dict)
    slices: list[Slice] = field(default_factory=list)
    norms: list[Node] = field(default_factory=list)
    roots: list[tuple[Node, int]] = field(default_factory=list)
    parts: list[list[int]] = field(default_factory=list)
    blocks: dict[Node, int] = field(default_factory=dict)
    _parents: list[int] = field(default_factory=list)
    _held: dict[int, Node] = field(default_factory=dict)

    def find(self, channel: int) -> int:
        """Return the channel that stands for all that leave with `channel`."""
        while self._parents[channel] != channel:
            self._parents[channel] = self._parents[self._parents[channel]]
            channel = self._parents[channel]
        return channel

    def groups(self) -> dict[int, list[int]]:
        """Return the channels that may leave, those that leave together under one of them."""
        stay = {self.find(channel) for channel in self._held}
        found = defaultdict(list)
        for channel in range(len(self.roots)):
            if self.find(channel) not in stay:
                found[self.find(channel)].append(channel)
        return dict(found)

    def holders(self) -> dict[str, Node]:
        """Nodes that keep the channels of a root in place, by the root's name."""
        held = {self.find(channel): node for channel, node in reversed(self._held.items())}
        found: dict[str, Node] = {}
        for channel, (root, _) in enumerate(self.roots):
            if self.find(channel) in held:
                found.setdefault(root.name, held[self.find(channel)])
        return found

    def begin(self, node: Node, count: int) -> int:
        """Add the channels of a root and return the first."""
        first = len(self.roots)
        self.roots += [(node, number) for number in range(count)]
        self._parents += range(first, first + count)
        self.parts.append(list(range(first, first + count)))
        return first

    def join(self, left: Tensor, right: Tensor) -> None:
        """Let the channels of two results leave together where they meet."""
        both = (left >= 0) & (right >= 0) & (left != right)
        if both.any():
            for a, b in torch.unique(torch.stack([left[both], right[both]]), dim=1).T.tolist():
                self._parents[self.find(a)] = self.find(b)

    def fix(self, labels: Tensor, node: Node) -> None:
        """Let the channels of a tensor stay, because of a node."""
        for channel in torch.unique(labels).tolist():
            if channel >= 0:
                self._held.setdefault(channel, node)

    def joined(self, labels: Tensor) -> Tensor:
        """Return labels with one channel in the place of all that leave with it."""
        known = torch.unique(labels)
        found = torch.tensor([item if item < 0 else self.find(item) for item in known.tolist()])
        return found[torch.searchsorted(known, labels.contiguous())] if labels.numel() else labels


class _Weight(NamedTuple):
    """A constant behind a weight: axes that count results and operands, and their indices there."""

    leaf: Node
    result: tuple[int, Tensor]
    operand: tuple[int, Tensor]


def find_channels(mg: MaseGraph) -> Channels:
    """Return the channels of a graph, as fine as they may leave: what is left is a rectangle."""
    return _Tracer(mg).run()


class _Tracer:
    """One walk over the graph."""

    def __init__(self, mg: MaseGraph) -> None:
        self._mg = mg
        self._values: dict[Node, Argument] = {}
        self._found = Channels()
        # Constants that a node depends on, where it depends on nothing else.
        self._leaves: dict[Node, tuple[Node, ...]] = {}
        # Nodes that leave channels out, with those of their operand.
        self._leaving: list[tuple[Node, Tensor]] = []

    def run(self) -> Channels:
        run_with(self._mg, self._mg.one_inference(), self._values.__setitem__)
        for node in self._mg.nodes:
            if node.op == "get_attr":
                self._leaves[node] = (node,)
            elif node.op == "output":
                for producer in node.all_input_nodes:
                    self._found.fix(self._labels(producer), node)
            elif node.op == "call_function":
                if all(item in self._leaves for item in node.all_input_nodes):
                    given = [leaf for item in node.all_input_nodes for leaf in self._leaves[item]]
                    self._leaves[node] = () if self._counts(node) else tuple(dict.fromkeys(given))
                else:
                    self._visit(node)
        self._join_shared()
        self._check_rectangles()
        self._label_constants()
        return self._found

    def _counts(self, node: Node) -> bool:
        """True if a node's values are whole numbers, as positions, which no NaN reaches."""
        value = self._values[node]
        real = isinstance(value, Tensor) and (
            value.is_floating_point() or value.dtype == torch.bool
        )
        return not real

    def _labels(self, node: Node) -> Tensor:
        labels = self._found.labels.get(node)
        if labels is None:
            shape = getattr(self._values[node], "shape", ())
            return torch.full(tuple(shape), FREE)
        return self._found.joined(labels)

    def _visit(self, node: Node) -> None:
        value = self._values[node]
        streams = [item for item in node.all_input_nodes if item not in self._leaves]
        labelled = [item for item in streams if bool((self._labels(item) >= 0).any())]
        if not isinstance(value, Tensor) or not value.is_floating_point():
            for item in labelled:
                self._found.fix(self._labels(item), node)
            return
        weight = self._weight(node)
        result = torch.full(tuple(value.shape), FREE)
        for item in labelled:
            labels = self._labels(item)
            carried, mixed = self._carried(node, item, labels)
            if mixed.any():
                if weight is None or not self._end(node, weight, labels):
                    self._found.fix(labels, node)
                continue
            if not torch.isin(labels[labels >= 0], carried).all():
                self._leave_out(node, labels, carried)
            self._found.join(result, carried)
            result = torch.where(result >= 0, result, carried)
        begins = weight is not None and not bool((result >= 0).any())
        if begins and weight is not None:
            result = self._begin(node, weight, result)
        result = _spread(self._found.joined(result))
        if len(torch.unique(result[result >= 0])) == 1:
            # Without its last channel a result would be empty.
            self._found.fix(result, node)
            result = torch.full_like(result, FREE)
        self._found.labels[node] = result
        self._note_split(result)
        if bool((result >= 0).any()):
            self._follow(node, result, weight.leaf if begins and weight else None)

    def _carried(self, node: Node, item: Node, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Labels as `_probe` carries them; norms carry every channel on."""
        norm = isinstance(operator_for(node.target), Normalizing)
        if not norm or labels.shape != self._values[node].shape or item is not node.args[0]:
            return self._probe(node, item, labels)
        self._found.norms.append(node)
        return labels, torch.zeros(labels.shape, dtype=torch.bool)

    def _leave_out(self, node: Node, labels: Tensor, carried: Tensor) -> None:
        """Note a node that takes some channels only."""
        if cut_dim(node) is None:
            self._leaving.append((node, labels))
        else:
            self._found.parts.append([item for item in torch.unique(carried).tolist() if item >= 0])

    def _weight(self, node: Node) -> _Weight | None:
        """Return the constant that a node's weight is, or is a part of."""
        operator = operator_for(node.target)
        if not isinstance(operator, Weighted):
            return None
        given = dict(tensor_arguments(node)).get(WEIGHT)
        leaves = self._leaves.get(given, ()) if isinstance(given, Node) else ()
        if len(leaves) != 1 or self._values[given].dim() < 2:
            return None
        result = self._behind(given, leaves[0], operator.result_axis)
        operand = self._behind(given, leaves[0], 1 - operator.result_axis)
        return _Weight(leaves[0], result, operand) if result and operand else None

    def _behind(self, given: Node, leaf: Node, axis: int) -> tuple[int, Tensor] | None:
        """Return the axis of a constant behind that of a weight, and its index for each of it."""
        if given is leaf:
            return axis, torch.arange(self._values[leaf].shape[axis])
        for candidate in range(self._values[leaf].dim()):
            labels, mixed = self._probe(given, leaf, _along(self._values[leaf], candidate))
            along = [axis] if labels.shape[axis] > 1 else []
            if _varying(labels) == along and bool(((labels >= 0) & ~mixed).all()):
                return candidate, labels.movedim(axis, 0).flatten(1)[:, 0]
        return None

    def _begin(self, node: Node, weight: _Weight, result: Tensor) -> Tensor:
        """Label the result of a root by the indices of its weight's result axis."""
        axis, indices = weight.result
        carried, mixed = self._probe(node, weight.leaf, _along(self._values[weight.leaf], axis))
        if mixed.any() or not torch.isin(carried, indices).all():
            return result
        known, ranks = torch.unique(carried, return_inverse=True)
        first = self._found.begin(node, len(known))
        groups = aten_arguments(node).get(GROUPS, 1)
        channels = torch.arange(first, first + len(known)).reshape(groups, -1)
        # Of every group as many leave.
        self._found.join(channels, channels[:1].expand_as(channels))
        labels: Tensor = first + ranks
        return labels

    def _end(self, node: Node, weight: _Weight, labels: Tensor) -> bool:
        """Note the axis of the weight that takes labelled features; false when there is none."""
        axis, indices = weight.operand
        labels = self._narrowed(labels)
        axes = _varying(labels)
        if len(axes) != 1 or labels.shape[axes[0]] != len(indices):
            return False
        features = torch.full((self._values[weight.leaf].shape[axis],), UNREAD)
        features[indices] = labels.movedim(axes[0], 0).reshape(len(indices), -1)[:, 0]
        self._found.slices.append(Slice(weight.leaf, axis, features, node, ends=True))
        return True

    def _follow(self, node: Node, result: Tensor, root_weight: Node | None) -> None:
        """Note the constants that have the channels of the result, and what cannot follow."""
        sources = [leaf for item in node.all_input_nodes for leaf in self._leaves.get(item, [item])]
        for item in dict.fromkeys(sources):
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
                    self._found.slices.append(Slice(item, axis, channels, node, begins=begins))
                else:
                    self._found.fix(channels, node)

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
        channels = torch.full((size,), UNREAD)
        channels[carried[carried >= 0]] = FREE
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
        known, ranks = torch.unique(labels[labels >= 0], return_inverse=True)
        if not len(known):
            return none
        every = torch.full(labels.shape, FREE)
        every[labels >= 0] = ranks
        rank = torch.zeros(tuple(shape), dtype=torch.int64)
        depends, mixed = none[1].clone(), none[1].clone()
        # Another layout in memory may round otherwise.
        value = value.clone()
        clean = self._run(node, item, value)

        def spoiled(where: Tensor) -> Tensor:
            unknown, moved = value.clone(), value.clone()
            unknown[where] = float("nan")
            moved[where] = 1.5 * value[where] + 1.0
            unknown, moved = (self._run(node, item, given) for given in (unknown, moved))
            return unknown.isnan() | (moved != clean)

        for bit in range(max(1, (len(known) - 1).bit_length())):
            chosen = (every >> bit) & 1 == 1
            one, zero = spoiled(chosen & (labels >= 0)), spoiled(~chosen & (labels >= 0))
            rank += one.long() << bit
            depends |= one | zero
            mixed |= one & zero
        single = depends & ~mixed
        found = known[rank.clamp(max=len(known) - 1)]
        return torch.where(single, found, torch.tensor(FREE)), mixed

    def _run(self, node: Node, item: Node, value: Tensor) -> Tensor:
        """Return a node's result with another value of an operand, or of a constant behind one."""

        def given(other: Node) -> Argument:
            if other is item:
                return value
            behind = item in self._leaves.get(other, ())
            return self._run(other, item, value) if behind else self._values[other]

        with torch.no_grad():
            target = overload(node.target)
            result: Tensor = target(
                *torch.fx.map_arg(node.args, given), **torch.fx.map_arg(node.kwargs, given)
            )
        return result

    def _note_split(self, labels: Tensor) -> None:
        """Let what a reshape puts into one row, as the features of a head, leave together."""
        axes = _varying(labels)
        if len(axes) > 1:
            self._join_along(labels, axes[-1])
            rows = labels.movedim(axes[-1], -1).flatten(end_dim=-2)
            for row in torch.unique(rows[(rows >= 0).all(dim=1)], dim=0):
                root, _ = self._found.roots[int(row[0])]
                self._found.blocks.setdefault(root, len(torch.unique(row)))

    def _narrowed(self, labels: Tensor) -> Tensor:
        """Return labels that vary along one axis, after what else varies leaves together."""
        axes = _varying(labels)
        while len(axes) > 1:
            self._join_along(labels, axes[-1])
            labels = self._found.joined(labels)
            axes = _varying(labels)
        return labels

    def _join_along(self, labels: Tensor, axis: int) -> None:
        self._found.join(labels, labels.narrow(axis, 0, 1).expand_as(labels))

    def _check_rectangles(self) -> None:
        """Make sure that what is left of every result is a rectangle, with what is taken of it."""
        for labels in self._found.labels.values():
            self._narrowed(self._found.joined(labels))
        for node, labels in self._leaving:
            left = self._found.joined(labels)
            if not torch.isin(left[left >= 0], self._labels(node)).all():
                self._found.fix(labels, node)

    def _join_shared(self) -> None:
        """Let what is read in several places leave in all of them; where one does not, in none."""
        readers: dict[str, set[Node]] = defaultdict(set)
        for node in self._mg.nodes:
            if node not in self._leaves:
                for operand in node.all_input_nodes:
                    for leaf in self._leaves.get(operand, ()):
                        readers[str(leaf.target)].add(node)
        slices: dict[tuple[str, int], list[Slice]] = defaultdict(list)
        for item in self._found.slices:
            slices[str(item.constant.target), item.axis].append(item)
        self._found.slices = []
        for (name, _), shared in slices.items():
            everywhere = {item.reader for item in shared} >= readers[name]
            whole = torch.stack([item.channels for item in shared]).amax(dim=0)
            for item in shared:
                self._found.join(whole, item.channels)
                if not everywhere or bool(((item.channels == FREE) & (whole >= 0)).any()):
                    self._found.fix(whole, item.reader)
                own = item.channels.where(item.channels >= 0, whole.clamp(min=FREE))
                self._found.slices.append(replace(item, channels=own))

    def _label_constants(self) -> None:
        """Label constants, and what is computed of them alone, by their channels."""
        slices = {(item.constant, item.axis): item for item in self._found.slices}
        for node, leaves in self._leaves.items():
            labels = self._labels(node)
            for item in slices.values():
                if item.constant in leaves:
                    value = self._values[item.constant]
                    shape = [-1 if axis == item.axis else 1 for axis in range(value.dim())]
                    given = item.channels.reshape(shape).expand(value.shape)
                    carried = (
                        given
                        if node is item.constant
                        else self._probe(node, item.constant, given)[0]
                    )
                    labels = torch.where(carried >= 0, carried, labels)
            self._found.labels[node] = labels


def cut_dim(node: Node) -> int | None:
    """Return the dimension that a node takes one stretch of; None where it does something else."""
    given = aten_arguments(node)
    if {"dim", "start", "end"} <= set(given) and given.get("step", 1) == 1:
        return int(given["dim"])
    return None


def _along(value: Tensor, axis: int) -> Tensor:
    shape = [1] * value.dim()
    shape[axis] = -1
    return torch.arange(value.shape[axis]).reshape(shape).expand(value.shape).clone()


def _varying(labels: Tensor) -> list[int]:
    """Return the axes along which labels differ, whatever is not labelled."""
    high = labels.where(labels >= 0, torch.tensor(torch.iinfo(torch.int64).max))
    return [
        axis
        for axis in range(labels.dim())
        if labels.shape[axis] > 1 and bool((labels.amax(axis) > high.amin(axis)).any())
    ]


def _spread(labels: Tensor) -> Tensor:
    """Return labels for what has none, as constants that are joined, along axes without others."""
    axes = _varying(labels)
    if axes:
        for axis in range(labels.dim()):
            if axis not in axes and labels.shape[axis] > 1:
                labels = labels.amax(axis, keepdim=True).expand_as(labels)
    return labels
