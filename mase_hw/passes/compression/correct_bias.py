"""Bias correction: biases make up for the mean error that rounding leaves in a layer's results.

    b' = b + E[y - y_rounded], the mean over data of each element of `b`

Source: Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction"
(2019), arXiv:1906.04721, on data as in its appendix. Layers are taken in the order of the graph, on
what those before them, corrected, give.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw.errors import ConfigError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import tensor_arguments
from mase_hw.graph.quantized import GraphRun
from mase_hw.ops import operator_for
from mase_hw.passes._pass import Result, graph_pass
from mase_hw.passes.compression.walk import Values, walk

BIAS = "bias"


@graph_pass
def correct_bias_transform_pass(
    mg: MaseGraph, *, data: Iterable[object] | None = None, nodes: Iterable[str] | None = None
) -> Result:
    """Add to biases what their layers' results lose on the mean by rounding.

    Args:
        mg: a quantised graph.
        data: batches of inputs; the example inputs when not given.
        nodes: the names of layers; all with a bias of their own when not given.

    Returns:
        A new graph with the same formats; `layers`, by layer the largest correction of a bias.

    Raises:
        ConfigError: for an argument that is not legal, or a graph without number formats.
        DataError: when there is no batch.
    """
    if not mg.is_quantized:
        raise ConfigError(f"bias correction: {mg.name} has no number formats; quantize it first")
    exact, mg = mg.copy().eval(), mg.copy().eval()
    chosen = _biases(mg)
    if nodes is not None:
        names = list(nodes)
        known = {node.name: node for node in chosen}
        for name in names:
            if name not in known:
                raise ConfigError(f"bias correction: {name!r} is no layer with a bias of its own")
        chosen = {known[name]: chosen[known[name]] for name in names}
    batches = [mg.example_inputs] if data is None else list(data)
    report: dict[str, float] = {}
    pairs = zip(walk(mg, batches), walk(exact, batches, only=()), strict=True)
    for (node, values), (twin, originals) in pairs:
        if node in chosen:
            bias = mg.constant(chosen[node])
            change = _mean_error(mg, exact, node, twin, values, originals, chosen[node])
            with torch.no_grad():
                bias.add_(change.to(bias.dtype))
            report[node.name] = float(change.abs().max())
    return mg, {"layers": report}


def _biases(mg: MaseGraph) -> dict[Node, Node]:
    """Return the biases that nothing else reads, by layer."""
    found = {}
    for node in mg.nodes:
        operator = operator_for(node.target) if node.op == "call_function" else None
        if operator is None:
            continue
        operands = dict(tensor_arguments(node))
        bias = operands.get(BIAS)
        if isinstance(bias, Node) and bias.op == "get_attr" and len(bias.users) == 1:
            found[node] = bias
    return found


def _mean_error(
    mg: MaseGraph,
    exact: MaseGraph,
    node: Node,
    twin: Node,
    values: list[Values],
    originals: list[Values],
    bias: Node,
) -> Tensor:
    """Return by element of a bias the mean error of the results that it is added to."""
    rounded, run = GraphRun(mg), GraphRun(exact, only=())
    parameter = exact.constant(bias)
    total = torch.zeros_like(parameter, dtype=torch.float64)
    count = torch.zeros_like(total)
    for now, before in zip(values, originals, strict=True):
        with torch.enable_grad():
            parameter.requires_grad_()
            result = run.step(twin, before)
            error = result.detach() - rounded.step(node, now).detach()
            error = torch.nan_to_num(error, 0.0, 0.0, 0.0)
            # The result is linear in the bias: its derivative says where each element is added.
            sums = torch.autograd.grad(result, parameter, error, retain_graph=True)[0]
            places = torch.autograd.grad(result, parameter, torch.ones_like(result))[0]
        total += sums.double()
        count += places.double()
    return total / count.clamp(min=1.0)
