"""`skip_transform_pass`: layers leave the graph, and their operand takes the place of their result.

With it a search chooses, layer by layer, between the layer and nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from torch.fx import Node

from mase_hw.errors import ConfigError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import common, erase_node, location, stream_operands
from mase_hw.passes._pass import Result, graph_pass
from mase_hw.registry import nearest


def skippable(mg: MaseGraph) -> list[str]:
    """Return the nodes that have a constant, and one operand of the shape of their result."""
    return [node.name for node in mg.nodes if node.op == "call_function" and _fits(mg, node)]


@graph_pass
def skip_transform_pass(mg: MaseGraph, *, nodes: Iterable[str] = ()) -> Result:
    """Take nodes out of the graph.

    Args:
        mg: a graph with common metadata.
        nodes: the names.

    Returns:
        A new graph, and `{"skipped": names}`.

    Raises:
        ConfigError: for a name that matches no node, or a node whose result has another shape than
            its operand.
    """
    names = list(nodes)
    legal = skippable(mg)
    mg = mg.copy()
    known = {node.name: node for node in mg.nodes if node.op == "call_function"}
    for name in names:
        if name not in legal:
            where = f" ({location(known[name])})" if name in known else ", no node,"
            raise ConfigError(
                f"{name!r}{where} cannot be skipped: a layer with weights whose result has the "
                f"shape of its operand can; {nearest(name, legal)}"
            )
        node = known[name]
        node.replace_all_uses_with(stream_operands(node)[0][1])
        erase_node(node)
    mg.recompile()
    return mg, {"skipped": names}


def _fits(mg: MaseGraph, node: Node) -> bool:
    if common(node).operator is None or len(stream_operands(node)) != 1:
        return False
    call = mg.call(node)
    shapes = [spec.shape for spec in (*call.streams.values(), *call.results.values())]
    return bool(call.constants) and all(shape == shapes[0] for shape in shapes)
