"""Nodes that no operator covers, written as torch's own decompositions write them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._decomp import core_aten_decompositions, decomposition_table
from torch._ops import OpOverload
from torch.func import functionalize
from torch.fx import Graph, GraphModule, Node, Proxy
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg
from torch.fx.proxy import GraphAppendingTracer
from torch.utils._pytree import tree_flatten, tree_unflatten

from mase_hw._aten import aten
from mase_hw._kinds import Argument
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import common
from mase_hw.graph.quantized import GraphRun
from mase_hw.ops import operator_for
from mase_hw.passes.canonical._rewrite import rewrite_from

_Table = Mapping[OpOverload, Callable[..., Any]]

# What a decomposition writes for a batch of either size differs where it counts the batch.
_BATCHES = (2, 3)
_SIZED = (aten.view.default, aten.reshape.default, aten.expand.default)


def expand_node(mg: MaseGraph, node: Node) -> bool:
    """Replace a node that no operator covers, in place; return whether it was.

    Args:
        mg: a graph with common metadata.
        node: one of its nodes.
    """
    traced = _decomposition(mg, node)
    if traced is None or not _computes(mg, node, traced):
        return False
    return rewrite_from(mg, node, common(node).results, lambda _: _record(mg, node, traced), {})


def _computes(mg: MaseGraph, node: Node, traced: GraphModule) -> bool:
    """True if a decomposition gives a node's results on the example inputs.

    Not all of torch's do: that of `multilabel_margin_loss` counts targets behind the last one.
    """
    if not mg.example_inputs:
        return True
    traced.recompile()
    with torch.no_grad():
        inputs = mg.batch_dims.inside(list(mg.example_inputs))
        values = GraphRun(mg, only=()).values(inputs)
        results = traced(*(values[item.name] for item in _streams_of(node)))
    pairs = zip(_results_of(results), _results_of(values[node.name]), strict=False)
    return all(
        torch.allclose(left.double(), right.double(), rtol=1e-3, atol=1e-5, equal_nan=True)
        for left, right in pairs
    )


def _record(mg: MaseGraph, node: Node, traced: GraphModule) -> list[Proxy] | None:
    tracer = GraphAppendingTracer(mg.fx_graph)
    inputs = iter(_streams_of(node))
    constants = {id(mg.constant(item)): item for item in _constants_of(node)}
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
    results = [values[item] for item in _results_of(output)]
    if not all(isinstance(item, Node) and item.op == "call_function" for item in results):
        return None
    return [Proxy(item, tracer) for item in results]


def _decomposition(mg: MaseGraph, node: Node) -> GraphModule | None:
    """Return a graph of the node's streams that computes it with operators alone, for any batch.

    None where torch has no decomposition, where a part of it has no operator, and where it depends
    on the size of a batch.
    """
    if not isinstance(node.target, OpOverload) or not common(node).results:
        return None
    for table in _tables():
        graphs = [_traced(mg, node, batch, table) for batch in (_BATCHES if mg.batched else (1,))]
        covered = [graph for graph in graphs if graph is not None and _is_covered(graph.graph)]
        if len(covered) == len(graphs) and _join(covered):
            return covered[0]
    return None


@cache
def _tables() -> tuple[_Table, ...]:
    """Return torch's decompositions of what no operator covers: into its core, and all."""
    return tuple(
        {
            target: function
            for target, function in table.items()
            if isinstance(target, OpOverload) and operator_for(target) is None
        }
        for table in (core_aten_decompositions(), decomposition_table)
    )


def _traced(mg: MaseGraph, node: Node, batch: int, table: _Table) -> GraphModule | None:
    constants = {item: mg.constant(item) for item in _constants_of(node)}

    def compute(*values: Tensor) -> object:
        operands = {**constants, **dict(zip(_streams_of(node), values, strict=True))}
        args, kwargs = map_arg((node.args, node.kwargs), operands.__getitem__)
        return node.target(*args, **kwargs)  # type: ignore[operator]

    values = [_example(item, batch) for item in _streams_of(node)]
    try:
        traced = make_fx(functionalize(compute, remove="mutations"), decomposition_table=table)(
            *values
        )
        _fold(traced)
    except (RuntimeError, NotImplementedError, ValueError, TypeError, IndexError):
        return None
    traced.graph.eliminate_dead_code()
    return traced


def _fold(traced: GraphModule) -> None:
    """Compute what depends on no operand; a number is written as one."""
    values: dict[Node, Argument] = {}
    for item in traced.graph.nodes:
        if item.op == "get_attr":
            values[item] = getattr(traced, str(item.target))
        elif item.op == "call_function" and all(each in values for each in item.all_input_nodes):
            args, kwargs = map_arg((item.args, item.kwargs), values.__getitem__)
            values[item] = item.target(*args, **kwargs)
    for number, (item, value) in enumerate(values.items()):
        if item.op == "get_attr" or all(user in values for user in item.users):
            continue
        name = f"_folded_{number}"
        traced.register_buffer(name, value)
        with traced.graph.inserting_before(item):
            item.replace_all_uses_with(traced.graph.get_attr(name))


def _constants_of(node: Node) -> list[Node]:
    return [item for item in node.all_input_nodes if item.op == "get_attr"]


def _streams_of(node: Node) -> list[Node]:
    return [item for item in node.all_input_nodes if item.op != "get_attr"]


def _example(node: Node, batch: int) -> Tensor:
    spec = common(node).results["data_out_0"]
    shape = (spec.shape[0] * batch, *spec.shape[1:]) if spec.shape else ()
    return torch.ones(shape, dtype=getattr(torch, spec.dtype))


def _is_covered(graph: Graph) -> bool:
    calls = [node for node in graph.nodes if node.op == "call_function"]
    (output,) = graph.output_node().args
    return (
        bool(calls)
        and all(
            node.target is operator.getitem or operator_for(node.target) is not None
            for node in calls
        )
        and all(isinstance(item, Node) for item in _results_of(output))
    )


def _results_of(output: object) -> Sequence[Argument]:
    return output if isinstance(output, list | tuple) else [output]


def _join(graphs: list[GraphModule]) -> bool:
    """Free the first graph of its batch; return whether the others are the same then."""
    first, *others = graphs
    for node in first.graph.nodes:
        if node.target is aten.view.default:
            # What comes may lie elsewhere in memory than what was traced.
            node.target = aten.reshape.default
    for other in others:
        pairs = list(zip(first.graph.nodes, other.graph.nodes, strict=False))
        if len(first.graph.nodes) != len(other.graph.nodes):
            return False
        names = {right: left for left, right in pairs}
        for left, right in pairs:
            operands = map_arg((right.args, right.kwargs), names.__getitem__)
            joined = _joined((left.args, left.kwargs), operands, left.target in _SIZED)
            if joined is None or not _is_same(first, left, other, right):
                return False
            left.args, left.kwargs = joined
    return True


def _is_same(first: GraphModule, left: Node, other: GraphModule, right: Node) -> bool:
    if left.op == right.op == "get_attr":
        return torch.equal(getattr(first, str(left.target)), getattr(other, str(right.target)))
    if left.op == right.op == "call_function":
        views = (aten.view.default, aten.reshape.default)
        return left.target == right.target or (left.target in views and right.target in views)
    return left.op == right.op


def _joined(left: Argument, right: Argument, sized: bool) -> Argument | None:
    """Arguments of two calls as one, with -1 where they count the batch; None where they differ."""
    (values, tree), (others, other_tree) = map(tree_flatten, (left, right))
    low, high = _BATCHES
    for place, (one, other) in enumerate(zip(values, others, strict=False)):
        if type(one) is not type(other) or one != other:
            sizes = sized and isinstance(one, int) and isinstance(other, int)
            if not sizes or one * high != other * low:
                return None
            values[place] = -1
    return tree_unflatten(values, tree) if tree == other_tree else None
