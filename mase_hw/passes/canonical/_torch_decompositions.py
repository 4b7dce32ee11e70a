"""Nodes without an operator, written as torch's own decompositions write them."""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node, Proxy
from torch.fx.node import map_arg
from torch.fx.proxy import GraphAppendingTracer

from mase_hw._kinds import Argument
from mase_hw.graph.decompositions import constants_of, decomposition, results_of, streams_of
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import common
from mase_hw.graph.quantized import GraphRun
from mase_hw.passes.canonical._rewrite import rewrite_from


def expand_node(mg: MaseGraph, node: Node) -> bool:
    """Replace a node that no operator covers, in place; return whether it was.

    Args:
        mg: a graph with common metadata.
        node: one of its nodes.
    """
    traced = decomposition(mg, node)
    if traced is None or not _computes(mg, node, traced):
        return False
    return rewrite_from(mg, node, common(node).results, lambda _: _record(mg, node, traced), {})


def _computes(mg: MaseGraph, node: Node, traced: GraphModule) -> bool:
    """Return whether a decomposition gives a node's results on the example inputs.

    Not all of torch's do: that of `multilabel_margin_loss` counts targets behind the last one.
    """
    if not mg.example_inputs:
        return True
    traced.recompile()
    with torch.no_grad():
        inputs = mg.batch_dims.inside(list(mg.example_inputs))
        known = GraphRun(mg, only=()).values(inputs)
        found = traced(*(known[item.name] for item in streams_of(node)))
    pairs = zip(results_of(found), results_of(known[node.name]), strict=False)
    return all(
        torch.allclose(left.double(), right.double(), rtol=1e-3, atol=1e-5, equal_nan=True)
        for left, right in pairs
    )


def _record(mg: MaseGraph, node: Node, traced: GraphModule) -> list[Proxy] | None:
    """Return the results of a decomposition, called on a node's operands."""
    tracer = GraphAppendingTracer(mg.fx_graph)
    inputs = iter(streams_of(node))
    constants = {id(mg.constant(item)): item for item in constants_of(node)}
    values: dict[Node, Argument] = {}
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
