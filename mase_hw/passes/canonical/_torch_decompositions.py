"""Nodes without an operator, written as torch's own decompositions write them."""

from __future__ import annotations

from typing import Any

from torch.fx import GraphModule, Node, Proxy
from torch.fx.node import map_arg
from torch.fx.proxy import GraphAppendingTracer

from mase_hw.graph.decompositions import constants_of, decomposition, results_of, streams_of
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import common
from mase_hw.passes.canonical._rewrite import rewrite_from


def expand_node(mg: MaseGraph, node: Node) -> bool:
    """Replace a node that no operator covers, in place; return whether it was.

    Args:
        mg: a graph with common metadata.
        node: one of its nodes.
    """
    traced = decomposition(mg, node)
    if traced is None:
        return False
    return rewrite_from(mg, node, common(node).results, lambda _: _record(mg, node, traced), {})


def _record(mg: MaseGraph, node: Node, traced: GraphModule) -> list[Proxy] | None:
    """Return the results of a decomposition, called on a node's operands."""
    tracer = GraphAppendingTracer(mg.fx_graph)
    inputs = iter(streams_of(node))
    constants = {id(mg.constant(item)): item for item in constants_of(node)}
    values: dict[Node, Any] = {}
    for item in traced.graph.nodes:
        if item.op == "placeholder":
            values[item] = next(inputs)
        elif item.op == "get_attr":
            value = getattr(traced, str(item.target))
            values[item] = constants.get(id(value), value)
        elif item.op == "call_function":
            args, kwargs = map_arg((item.args, item.kwargs), values.__getitem__)
            values[item] = mg.fx_graph.create_node("call_function", item.target, args, kwargs)
    (output,) = traced.graph.output_node().args
    found = [values[item] for item in results_of(output)]
    if any(item.op != "call_function" for item in found):
        return None
    return [Proxy(item, tracer) for item in found]
