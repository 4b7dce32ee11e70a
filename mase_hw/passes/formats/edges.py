"""Number formats over the edges of a graph: results are offered, consumers ask, casts lie between.

Operands have the formats that nodes ask for, results those that serve all who read them, the
output among the readers. Where the two ends of an edge differ a cast stands, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from torch.fx import Node

from mase_hw.formats import Format, serving_formats
from mase_hw.graph.loops import is_boundary, loops_of
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import (
    common,
    consumers,
    insert_after,
    keeps_format,
    observed_ends,
    operator_of,
    refresh_output,
    result_spec,
    set_formats,
    shares_format,
    stream_operands,
)
from mase_hw.passes._pass import Result, graph_pass

ROLE = "cast"


@graph_pass
def insert_casts_transform_pass(mg: MaseGraph) -> Result:
    """Insert a cast on every edge whose ends differ; consumers in one format share it.

    Returns:
        The graph, and `{"casts": names of the inserted nodes}`.
    """
    mg = mg.copy()
    inserted: dict[tuple[Node, Format, Node | None], Node] = {}
    for node in mg.nodes:
        for name, producer in _edges(mg, node):
            asked, offered = common(node).operands[name].format, result_spec(producer)
            if asked is None or offered.format is None or asked == offered.format:
                continue
            # The layers on both sides of a loop boundary read it, each through its own cast.
            reader = node if is_boundary(producer) else None
            key = producer, asked, reader
            if key not in inserted:
                inserted[key] = insert_after(producer, ROLE, offered, offered.with_format(asked))
                if reader is not None:
                    reader.prepend(inserted[key])
            node.replace_input_with(producer, inserted[key])
    refresh_output(mg.model)
    mg.recompile()
    return mg, {"casts": [node.name for node in inserted.values()]}


def _edges(mg: MaseGraph, node: Node) -> list[tuple[str, Node]]:
    if node.op == "output":
        asked = common(node).operands
        edges = ((f"data_in_{index}", producer) for index, producer in enumerate(mg.outputs))
        return [(name, item) for name, item in edges if name in asked and item.op != "get_attr"]
    return stream_operands(node) if node.op == "call_function" else []


class Offers:
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
        self._outputs = frozenset(mg.outputs)

    def asked(self, node: Node) -> Iterator[Format]:
        """Yield the formats that consumers ask for, in graph order; none for an output."""
        for user, name in consumers(node):
            number = common(user).operands[name].format if user in self._configured else None
            if number is not None:
                yield number
            elif user not in self._configured and keeps_format(user):
                legal = operator_of(user).formats
                yield from (item for item in self.asked(user) if item.name in legal)

    def of(self, node: Node) -> Format | None:
        """Format of a result; None where nobody chooses one."""
        asked, alone = list(self.asked(node)), self._alone.get(node)
        if asked and alone is not None:
            asked += [alone(place) for place in self._leaving(node)]
        serving = self._serving(node, asked)
        chosen = next((item for item in serving if self._has_hardware(node, item)), None)
        return alone(node) if chosen is None and alone is not None else chosen

    def kept(self, node: Node) -> Format | None:
        """Format that an operator keeps: of several operands, what serves them all."""
        operands = common(node).operands
        first, *others = (
            result_spec(producer).format
            for number, (name, producer) in enumerate(stream_operands(node))
            if number == 0 or operands[name].dtype == operands["data_in_0"].dtype
        )
        formats = [item for item in (first, *others) if item is not None]
        return self._serving(node, formats)[0] if len({*formats}) > 1 else first

    def widen_joined(self, free: Iterable[Node]) -> None:
        """Give nodes whose operands and results share one format what their consumers ask for.

        Args:
            free: nodes whose result no configuration chooses.
        """
        nodes = {node for node in free if shares_format(node)}
        # Of a state of a loop all nodes have one format, of others each by itself.
        states = [row for loop in loops_of(self._mg) for row in loop.states if row[0] in nodes]
        apart = nodes.difference(*states)
        groups = [*([node] for node in self._mg.nodes if node in apart), *states]
        # Formats only grow finer, each to that of another one.
        for _ in groups:
            widened = [self._widen(group) for group in reversed(groups)]
            if not any(widened):
                return

    def _widen(self, group: Sequence[Node]) -> bool:
        own = common(group[0]).operands["data_in_0"].quantized
        asked = [own, *(item for node in group for item in self.asked(node))]
        chosen = self._serving(group[0], asked)[0]
        if chosen == own or chosen.name not in operator_of(group[0]).formats:
            return False
        for node in group:
            set_formats(node, dict.fromkeys(common(node).operands, chosen))
        return True

    def _serving(self, node: Node, asked: Sequence[Format]) -> list[Format]:
        return serving_formats(asked, *observed_ends(node), len(result_spec(node).shape))

    def _leaving(self, node: Node) -> Iterator[Node]:
        """Yield what leaves the graph of a result: itself, or what only moves it."""
        if node in self._outputs:
            yield node
        for user, _ in consumers(node):
            if user not in self._configured and keeps_format(user):
                yield from self._leaving(user)

    def _has_hardware(self, node: Node, asked: Format) -> bool:
        if node.op == "placeholder":
            return True
        if asked.name == common(node).operands["data_in_0"].quantized.name:
            return True
        call = self._mg.call(node)
        return not call.operator.problems(call.with_formats(dict.fromkeys(call.results, asked)))
