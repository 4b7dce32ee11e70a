"""A graph with the fill values of the user's model."""

from __future__ import annotations

import math

import torch
from torch.fx import Node
from torch.fx.node import Argument

from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import Fill
from mase_hw.graph.nodes import metadata
from mase_hw.graph.quantized import GraphRun
from mase_hw.graph.rebuild import get_tensor, rebuild, set_tensor

# Of rounding to the type of a tensor.
TOLERANCE = 3e-3


def as_given(mg: MaseGraph) -> MaseGraph:
    """Return a graph that computes what the user's model does: the same where no fill is smaller.

    Nodes have the names of the given graph's; parameters and buffers are shared with it.
    """
    if not any(metadata(node).fills for node in mg.nodes):
        return mg
    names = {node: node.name for node in mg.fx_graph.nodes}
    found = mg.with_model(rebuild(mg.model, names, own=False))
    for node in found.nodes:
        for fill in metadata(node).fills:
            for place, argument in enumerate(node.args):
                node.update_arg(place, _put_back(found, node, argument, fill))
    found.fx_graph.lint()
    return found


def rounds_itself(mg: MaseGraph) -> list[str]:
    """Return the nodes that round as the user's model does, because it was quantised already."""
    return [
        node.name
        for node in mg.nodes
        if metadata(node).exact
        and any(name.startswith("data_out") for name in metadata(node).declared)
    ]


def float_run(mg: MaseGraph) -> GraphRun:
    """Return a run of the user's model: nothing is rounded but what it rounds itself."""
    return GraphRun(as_given(mg), only=rounds_itself(mg))


def _put_back(mg: MaseGraph, node: Node, argument: Argument, fill: Fill) -> Argument:
    """Return an argument with what is as large as a bound as it was."""
    if isinstance(argument, float):
        same = math.isclose(abs(argument), fill.bound)
        return math.copysign(fill.magnitude, argument) if same else argument
    if not isinstance(argument, Node) or argument.op != "get_attr":
        return argument
    value = get_tensor(mg.model, argument.target)
    if not value.is_floating_point():
        return argument
    large = (value.abs() / fill.bound - 1).abs() < TOLERANCE
    if not bool(large.any()):
        return argument
    name = f"{argument.name}_as_{node.name}_has_it"
    set_tensor(mg.model, name, torch.where(large, value.sign() * fill.magnitude, value))
    with mg.fx_graph.inserting_before(node):
        return mg.fx_graph.get_attr(name)
