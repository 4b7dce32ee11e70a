"""Counting passes: operators, arithmetic operations, parameters."""

from __future__ import annotations

from collections import Counter

from torch import nn

from mase_hw.graph import MaseGraph, common, metadata
from mase_hw.passes._pass import Result, graph_pass


@graph_pass
def report_operators_analysis_pass(mg: MaseGraph) -> Result:
    """Count the nodes of every operator.

    Returns:
        The graph, and `{"operators": {name: count}, "unsupported": {target: [nodes]}}`, the latter
        with the user's source line of every node.
    """
    operators: Counter[str] = Counter()
    unsupported: dict[str, list[str]] = {}
    for node in mg.nodes:
        if node.op != "call_function":
            continue
        name = common(node).operator
        if name is None:
            where = f"{node.name} at {metadata(node).source}"
            unsupported.setdefault(str(node.target), []).append(where)
        else:
            operators[name] += 1
    return mg, {"operators": dict(sorted(operators.items())), "unsupported": unsupported}


@graph_pass
def count_flops_analysis_pass(mg: MaseGraph) -> Result:
    """Count the arithmetic operations of one inference; a multiply-accumulate is two.

    Returns:
        The graph, and `{"flops": total, "nodes": {name: flops}}` over the nodes with an operator.
    """
    nodes = {}
    for node in mg.nodes:
        if node.op == "call_function" and common(node).operator is not None:
            call = mg.call(node)
            nodes[node.name] = call.operator.operations(call)
    return mg, {"flops": sum(nodes.values()), "nodes": nodes}


@graph_pass
def count_parameters_analysis_pass(mg: MaseGraph) -> Result:
    """Count the elements of parameters and buffers; a tensor that is read twice counts once.

    Returns:
        The graph, and `{"parameters": total, "buffers": total, "tensors": {name: elements}}`.
    """
    totals = {"parameters": 0, "buffers": 0}
    tensors: dict[str, int] = {}
    seen: set[int] = set()
    for node in mg.nodes:
        if node.op != "get_attr":
            continue
        value = mg.constant(node)
        if id(value) in seen:
            continue
        seen.add(id(value))
        tensors[str(node.target)] = value.numel()
        totals["parameters" if isinstance(value, nn.Parameter) else "buffers"] += value.numel()
    return mg, {**totals, "tensors": tensors}
