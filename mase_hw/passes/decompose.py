"""Write nodes with other operators where their own operator says how."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn
from torch.fx import Node, Proxy
from torch.fx.node import map_aggregate
from torch.fx.proxy import GraphAppendingTracer

from mase_hw.formats import family_of, format_class
from mase_hw.graph.calls import tensor_arguments
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import CommonMetadata, MaseMetadata, common, metadata, update
from mase_hw.graph.rebuild import set_tensor
from mase_hw.ops import Call, Operator, operator_for
from mase_hw.passes._insert import unique_name
from mase_hw.passes.common_metadata import add_common_metadata_analysis_pass
from mase_hw.passes.configuration import Configuration
from mase_hw.passes.fold import fold_constants_transform_pass


def decompose_transform_pass(
    mg: MaseGraph, pass_args: Mapping[str, Any] | None = None
) -> tuple[MaseGraph, dict[str, Any]]:
    """Replace nodes by `Operator.expression`, until every node has hardware or no operator.

    Operators that are fused stay: `decompose_fused_transform_pass` takes them apart. A result keeps
    the name of the node it replaces: the node itself, or of several results the `getitem` that
    reads it. Results that nobody reads are not made.

    Args:
        mg: a graph with common metadata.
        pass_args: none are known.

    Returns:
        The graph, with common metadata, and `{"decomposed": names of the replaced nodes}`.
    """
    return _decomposed(mg, fused=False)


def decompose_fused_transform_pass(
    mg: MaseGraph, pass_args: Mapping[str, Any] | None = None
) -> tuple[MaseGraph, dict[str, Any]]:
    """Replace fused operators by their `expression`, where a part of one would have a format.

    Args:
        mg: a graph with common metadata.
        pass_args: the configuration of the formats, see `Configuration.parse`.

    Returns:
        The graph, with common metadata, and `{"decomposed": names of the replaced nodes}`.
    """
    fused = [
        node
        for node in mg.nodes
        if node.op == "call_function" and (kind := operator_for(node.target)) and kind.fused
    ]
    if not fused:
        return mg, {"decomposed": []}
    apart, info = _decomposed(mg, fused=True)
    known = {node.name for node in mg.nodes} - {node.name for node in fused}
    parts = [node for node in apart.nodes if node.op == "call_function" and node.name not in known]
    config = Configuration.parse(pass_args or {}, [node.name for node in apart.nodes])
    names = [config.for_node(node.name, common(node).operator).get("name") for node in parts]
    if all(name is None or family_of(format_class(str(name))) is None for name in names):
        return mg, {"decomposed": []}
    return apart, info


def _decomposed(mg: MaseGraph, *, fused: bool) -> tuple[MaseGraph, dict[str, Any]]:
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
    mg, _ = add_common_metadata_analysis_pass(mg.copy(), {})
    mg, _ = decompose_transform_pass(mg)
    mg, _ = fold_constants_transform_pass(mg)
    return add_common_metadata_analysis_pass(mg, {})[0]


def _weighs(mg: MaseGraph, node: Node) -> bool:
    found = operator_for(node.target) if node.op == "call_function" else None
    if found is None or not found.weighs:
        return False
    constants = [mg.constant(item) for item in node.all_input_nodes if item.op == "get_attr"]
    return any(item.dim() >= 2 and isinstance(item, nn.Parameter) for item in constants)


def _decompose(mg: MaseGraph, node: Node, fused: bool) -> bool:
    found = operator_for(node.target) if node.op == "call_function" else None
    if found is None or (found.fused and not fused):
        return False
    if type(found).expression is Operator.expression:
        return False
    if common(node).operator is None:
        return False
    call = mg.call(node)
    before = set(mg.fx_graph.nodes)
    with mg.fx_graph.inserting_before(node):
        results = found.expression(call, _proxies(mg, node, call))
    made = [item for item in mg.nodes if item not in before]
    if results is None or _last_read(node) >= len(results):
        for item in reversed(made):
            mg.fx_graph.erase_node(item)
        return False
    known = metadata(node)
    taken = {item.name for item in mg.nodes} - {item.name for item in made}
    results = [item.node for item in results]
    for item in made:
        kind = operator_for(item.target)
        stem = f"{node.name}_{kind.name if kind else item.name}"
        item.name = unique_name(stem, list(taken))
        taken.add(item.name)
        item.meta["mase"] = MaseMetadata(known.module_path, known.source)
        _store_constants(mg, item)
    for index, new in enumerate(results):
        result = CommonMetadata(None, {}, {"data_out_0": call.results[f"data_out_{index}"]})
        update(new, common=result)
    for old, new in _replacements(node, results):
        name = old.name
        old.replace_all_uses_with(new)
        mg.fx_graph.erase_node(old)
        new.name = name
    return True


def _store_constants(mg: MaseGraph, node: Node) -> None:
    """Make buffers of the tensors among a node's arguments."""

    def stored(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        name = unique_name(f"{node.name}_constant", [item.name for item in mg.nodes])
        set_tensor(mg.model, name, value)
        with mg.fx_graph.inserting_before(node):
            read = mg.fx_graph.create_node("get_attr", name, name=name)
        read.meta["mase"] = metadata(node)
        return read

    node.args = map_aggregate(node.args, stored)


def _last_read(node: Node) -> int:
    """Return the last of several results that is read."""
    indices = [user.args[1] for user in node.users if user.target is operator.getitem]
    return max((index for index in indices if isinstance(index, int)), default=0)


def _proxies(mg: MaseGraph, node: Node, call: Call) -> dict[str, Any]:
    """Return what records calls on each tensor operand; a Python number is itself."""
    tracer = GraphAppendingTracer(mg.fx_graph)
    return {
        name: Proxy(value, tracer) if isinstance(value, Node) else value
        for name, value in tensor_arguments(node, call.operator.operand_names)
    }


def _replacements(node: Node, results: Sequence[Node]) -> Iterable[tuple[Node, Node]]:
    """Yield (old node, new node); a node of several results itself comes last, unused."""
    readers = [user for user in node.users if user.target is operator.getitem]
    if not readers:
        return [(node, results[0])]
    first: dict[int, Node] = {}
    pairs = []
    for reader in readers:
        index = int(reader.args[1])  # type: ignore[arg-type]
        pairs.append((reader, first.setdefault(index, results[index])))
    return pairs
