"""Raise compositions of ATen operators to the one operator that they mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.passes.utils.matcher_utils import InternalMatch, SubgraphMatcher

from mase_hw.graph import MaseGraph, metadata, update
from mase_hw.graph._encoding import decode_target
from mase_hw.ops import Operator, operators
from mase_hw.passes._insert import unique_name

PROBE_SHAPE = (2, 3)


def raise_patterns_transform_pass(
    mg: MaseGraph, pass_args: Mapping[str, Any] | None = None
) -> tuple[MaseGraph, dict[str, Any]]:
    """Replace every occurrence of an operator's `pattern` by the operator.

    Returns:
        The graph, and `{"raised": names of the nodes that were put in}`.
    """
    mg = mg.copy()
    raised = []
    for operator in operators().values():
        pattern = operator.pattern()
        if pattern is None:
            continue
        matcher = SubgraphMatcher(_pattern_graph(pattern), match_output=False)
        for match in matcher.match(mg.fx_graph):
            raised.append(_replace(mg, operator, match).name)
    mg.recompile()
    return mg, {"raised": raised}


@cache
def _pattern_graph(function: Callable[[Tensor], Tensor]) -> Graph:
    """Return the ATen graph that the capture makes of `function`."""
    return make_fx(lambda x: function(x), pre_dispatch=True)(torch.ones(PROBE_SHAPE)).graph


def _replace(mg: MaseGraph, operator: Operator, match: InternalMatch) -> Node:
    (result,) = match.returning_nodes
    known = metadata(result)
    matched = [node for node in match.nodes_map.values() if node.op == "call_function"]
    name = unique_name(_stem(mg, operator, known.module_path, matched), _other_names(mg, matched))
    with mg.fx_graph.inserting_before(result):
        node = mg.fx_graph.create_node(
            "call_function",
            decode_target("call_function", operator.targets[0]),
            tuple(match.placeholder_nodes),
        )
    node.meta = dict(result.meta)
    update(node, module_path=known.module_path, source=known.source, common=None)
    result.replace_all_uses_with(node)
    for inner in reversed(list(mg.fx_graph.nodes)):
        if inner in matched and not inner.users:
            mg.fx_graph.erase_node(inner)
    node.name = name
    return node


def _stem(mg: MaseGraph, operator: Operator, path: str, matched: list[Node]) -> str:
    """Return the module's name when the pattern is all it does, else with the operator's name."""
    module = path.replace(".", "_")
    alone = {node for node in mg.nodes if metadata(node).module_path == path} <= set(matched)
    if alone and module.isidentifier():
        return module
    return f"{module}_{operator.name}" if module.isidentifier() else operator.name


def _other_names(mg: MaseGraph, matched: list[Node]) -> list[str]:
    return [node.name for node in mg.nodes if node not in matched]
