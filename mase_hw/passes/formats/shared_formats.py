"""The format of a result, from those that its consumers ask for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from torch.fx import Node

from mase_hw.formats import Format, serving_formats
from mase_hw.graph.loops import loops_of
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import common, metadata, update
from mase_hw.graph.streams import consumers, stream_operands
from mase_hw.ops import Numeric, Operator, operators


class SharedFormats:
    """The formats that serve all consumers of a result, outputs of the graph among them.

    Consumers behind nodes that keep a format count as consumers of what those keep, so that a
    slice never decides what its neighbour gets. The order of consumers does not matter.

    Args:
        mg: a graph whose configured nodes have the formats of their operands.
        configured: the nodes that round their operands.
        alone: by node, what gives the format of its result, or of what only moves that, where it
            leaves the graph.
    """

    def __init__(
        self,
        mg: MaseGraph,
        configured: Collection[Node],
        alone: Mapping[Node, Callable[[Node], Format]],
    ) -> None:
        self._mg, self._configured, self._alone = mg, configured, alone

    def wanted(self, node: Node) -> list[Format]:
        """Return the formats that consumers ask for, in graph order; none for an output."""
        return list(self._asked(node))

    def of(self, node: Node) -> Format | None:
        """Return the format of a result; None where nobody chooses one."""
        found, alone = self.wanted(node), self._alone.get(node)
        if found and alone is not None:
            found += [alone(place) for place in self._leaving(node)]
        serving = self._serving(node, found)
        chosen = next((item for item in serving if self._has_hardware(node, item)), None)
        return alone(node) if chosen is None and alone is not None else chosen

    def kept(self, node: Node) -> Format | None:
        """Return the format that an operator keeps: of several operands, what serves them all."""
        operands = common(node).operands
        given = [
            common(producer).results["data_out_0"].format
            for number, (name, producer) in enumerate(stream_operands(node))
            if number == 0 or operands[name].dtype == operands["data_in_0"].dtype
        ]
        known = [item for item in given if item is not None]
        return self._serving(node, known)[0] if len(set(known)) > 1 else given[0]

    def widen_joined(self, free: Iterable[Node]) -> None:
        """Give nodes whose operands and results share one format what their consumers ask for.

        Args:
            free: nodes whose result no configuration chooses.
        """
        groups = self._groups(node for node in free if shares_format(node))
        # Formats only grow finer, each to that of another one.
        for _ in groups:
            widened = [self._widen(group) for group in reversed(groups)]
            if not any(widened):
                return

    def _groups(self, free: Iterable[Node]) -> list[Sequence[Node]]:
        """Return nodes of one format: of a state of a loop all, of others each by itself."""
        nodes = set(free)
        states = [row for loop in loops_of(self._mg) for row in loop.states if row[0] in nodes]
        apart = nodes.difference(*states)
        return [*([node] for node in self._mg.nodes if node in apart), *states]

    def _widen(self, group: Sequence[Node]) -> bool:
        own = common(group[0]).operands["data_in_0"].quantized
        wanted = [own, *(item for node in group for item in self._asked(node))]
        chosen = self._serving(group[0], wanted)[0]
        if chosen == own or chosen.name not in operator_of(group[0]).formats:
            return False
        for node in group:
            known = common(node)
            operands = {name: spec.with_format(chosen) for name, spec in known.operands.items()}
            update(node, common=replace(known, operands=operands))
        return True

    def _serving(self, node: Node, wanted: Sequence[Format]) -> list[Format]:
        software = metadata(node).software
        known = None if software is None else software.ranges.get("data_out_0")
        ends = (-1.0, 1.0) if known is None else (known.minimum, known.maximum)
        return serving_formats(wanted, *ends, len(common(node).results["data_out_0"].shape))

    def _asked(self, node: Node) -> Iterator[Format]:
        for user, name in consumers(node):
            given = common(user).operands[name].format if user in self._configured else None
            if given is not None:
                yield given
            elif user not in self._configured and keeps_format(user):
                known = operator_of(user).formats
                yield from (item for item in self._asked(user) if item.name in known)

    def _leaving(self, node: Node) -> Iterator[Node]:
        """Yield what leaves the graph of a result: itself, or what only moves it."""
        if node in self._outputs:
            yield node
        for user, _ in consumers(node):
            if user not in self._configured and keeps_format(user):
                yield from self._leaving(user)

    @cached_property
    def _outputs(self) -> frozenset[Node]:
        return frozenset(self._mg.outputs)

    def _has_hardware(self, node: Node, wanted: Format) -> bool:
        """Return whether a node's operator has hardware for a result in a format."""
        if node.op == "placeholder":
            return True
        if wanted.name == common(node).operands["data_in_0"].quantized.name:
            return True
        call = self._mg.call(node)
        return not call.operator.problems(call.with_formats(dict.fromkeys(call.results, wanted)))


def casts(node: Node) -> bool:
    """Return true for a node whose operands and result may differ in format."""
    operator = common(node).operator
    return operator is not None and operators()[operator].casts


def operator_of(node: Node) -> Operator:
    """Return the operator of a node that has one."""
    return operators()[str(common(node).operator)]


def keeps_format(node: Node) -> bool:
    """Return true for a node whose result takes its operand's format unless configured."""
    operator = common(node).operator
    return operator is not None and Numeric.of(operators()[operator]).keeps_format


def shares_format(node: Node) -> bool:
    """Return true for a node whose operands and results are all in one format."""
    operator = common(node).operator
    return operator is not None and Numeric.of(operators()[operator]).shares_format
