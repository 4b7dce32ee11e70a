"""Write nodes with other operators where their own operator says how."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from torch import nn
from torch.fx import Node

from mase_hw.formats import family_of, format_class
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import common
from mase_hw.ops import Rewritten, operator_for
from mase_hw.passes._pass import Result, graph_pass
from mase_hw.passes.canonical._rewrite import rewrite
from mase_hw.passes.canonical._torch_decompositions import expand_node
from mase_hw.passes.canonical.common_metadata import add_common_metadata_analysis_pass
from mase_hw.passes.canonical.fold import fold_constants_transform_pass
from mase_hw.passes.configuration import Configuration


@graph_pass
def decompose_transform_pass(mg: MaseGraph) -> Result:
    """Replace nodes by `Operator.expression`, until every node has hardware or no operator.

    What no operator covers is written as torch itself writes it, where operators cover all of that.

    Operators that are fused stay: `decompose_fused_transform_pass` takes them apart. A result keeps
    the name of the node it replaces: the node itself, or of several results the `getitem` that
    reads it. Results that nobody reads are not made.

    Args:
        mg: a graph with common metadata.

    Returns:
        The graph, with common metadata, and `{"decomposed": names of the replaced nodes}`.
    """
    return _decomposed(mg, fused=False)


def decompose_fused_transform_pass(
    mg: MaseGraph, pass_args: Mapping[str, object] | None = None
) -> Result:
    """Replace fused operators by their `expression`, where a part of one would have a format.

    Args:
        mg: a graph with common metadata.
        pass_args: the configuration of the formats, see `Configuration.parse`.

    Returns:
        The graph, with common metadata, and `{"decomposed": names of the replaced nodes}`.
    """
    fused = [node for node in mg.nodes if (kind := _rewritten(node)) and kind.fused]
    if not fused:
        return mg, {"decomposed": []}
    apart, info = _decomposed(mg, fused=True)
    before = {node.name for node in mg.nodes} - {node.name for node in fused}
    parts = [node for node in apart.nodes if node.op == "call_function" and node.name not in before]
    config = Configuration.parse(pass_args or {}, [node.name for node in apart.nodes])
    names = [config.for_node(node.name, common(node).operator).get("name") for node in parts]
    if all(name is None or family_of(format_class(str(name))) is None for name in names):
        return mg, {"decomposed": []}
    return apart, info


def _decomposed(mg: MaseGraph, *, fused: bool) -> Result:
    mg = mg.copy()
    decomposed: list[str] = []
    while True:
        replaced = [node.name for node in mg.nodes if _decompose(mg, node, fused)]
        if not replaced:
            break
        decomposed += replaced
        mg.fx_graph.eliminate_dead_code()
        mg.recompile()
        mg, _ = add_common_metadata_analysis_pass(mg)
    return mg, {"decomposed": decomposed}


def with_layers(mg: MaseGraph) -> MaseGraph:
    """Return a graph whose products with constant matrices are layers, which have weights.

    A captured graph may hold both; one that has layers alone is returned as it is.
    """
    if not any(_weighs(mg, node) for node in mg.nodes):
        return mg
    mg, _ = fold_constants_transform_pass(mg.copy())
    mg, _ = add_common_metadata_analysis_pass(mg, {})
    mg, _ = decompose_transform_pass(mg)
    mg, _ = fold_constants_transform_pass(mg)
    return add_common_metadata_analysis_pass(mg, {})[0]


def _weighs(mg: MaseGraph, node: Node) -> bool:
    kind = _rewritten(node)
    if kind is None or not kind.weighs:
        return False
    return any(_is_matrix(mg, item) for item in node.all_input_nodes)


def _is_matrix(mg: MaseGraph, item: Node) -> bool:
    while item.op == "call_function" and len(item.all_input_nodes) == 1:
        (item,) = item.all_input_nodes
    constant = mg.constant(item) if item.op == "get_attr" else None
    return isinstance(constant, nn.Parameter) and constant.dim() >= 2


def _decompose(mg: MaseGraph, node: Node, fused: bool) -> bool:
    if node.op != "call_function" or operator_for(node.target) is None:
        return not fused and expand_node(mg, node)
    kind = _rewritten(node)
    if kind is None or (kind.fused and not fused) or common(node).operator is None:
        return False
    call = mg.call(node)
    return rewrite(mg, node, call, partial(kind.expression, call))


def _rewritten(node: Node) -> Rewritten | None:
    kind = operator_for(node.target) if node.op == "call_function" else None
    return kind if isinstance(kind, Rewritten) else None
