"""Nodes that are written with calls of other torch operators, recorded."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor
from torch.fx import Node, Proxy
from torch.fx.node import map_aggregate
from torch.fx.proxy import GraphAppendingTracer

from mase_hw._kinds import Table
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import CommonMetadata, MaseMetadata
from mase_hw.graph.nodes import (
    free_name,
    metadata,
    read_constant,
    tensor_arguments,
    unique_name,
    update,
)
from mase_hw.ops import Call, TensorSpec, operator_for


def rewrite(
    mg: MaseGraph,
    node: Node,
    call: Call,
    write: Callable[[Mapping[str, object]], Sequence[object] | None],
    inputs: Mapping[str, Node] | None = None,
) -> bool:
    """Replace a node, in place, by what `write` records; return whether it was.

    Args:
        mg: the graph.
        node: one of its nodes.
        call: the node's call.
        write: takes what stands for each tensor operand and returns every result, None to leave the
            node as it is.
        inputs: nodes that stand for operands instead, or besides.
    """
    operands = dict(tensor_arguments(node))
    return rewrite_from(mg, node, call.results, write, {**operands, **(inputs or {})})


def rewrite_from(
    mg: MaseGraph,
    node: Node,
    specs: Mapping[str, TensorSpec],
    write: Callable[[Table], Sequence[Any] | None],
    inputs: Mapping[str, Node | float],
) -> bool:
    """Replace a node as `rewrite` does, with or without an operator.

    Args:
        mg: the graph.
        node: one of its nodes.
        specs: of its results.
        write: takes what stands for each input and returns every result, or None.
        inputs: nodes and numbers by name.
    """
    before = set(mg.fx_graph.nodes)
    with mg.fx_graph.inserting_before(node):
        results = write(_proxies(mg, inputs))
    created = [item for item in mg.nodes if item not in before]
    if results is None or _last_read(node) >= len(results):
        for item in reversed(created):
            mg.fx_graph.erase_node(item)
        return False
    replaced = metadata(node)
    taken = {item.name for item in mg.nodes} - {item.name for item in created}
    nodes = [item.node for item in results]
    for item in created:
        kind = operator_for(item.target)
        stem = f"{node.name}_{kind.name if kind else item.name}"
        item.name = unique_name(stem, list(taken))
        taken.add(item.name)
        item.meta["mase"] = MaseMetadata(
            replaced.module_path, replaced.source, fills=replaced.fills
        )
        _keep_declared(item, replaced, inputs)
        _store_constants(mg, item)
    for index, new in enumerate(nodes):
        result = CommonMetadata(None, {}, {"data_out_0": specs[f"data_out_{index}"]})
        update(new, common=result)
        if index == 0:
            _keep_result(new, replaced)
    for old, new in _replacements(node, nodes):
        name = old.name
        old.replace_all_uses_with(new)
        mg.fx_graph.erase_node(old)
        new.name = name
    return True


def _keep_result(node: Node, replaced: MaseMetadata) -> None:
    own, name = metadata(node), "data_out_0"
    roundings = tuple(item for item in replaced.roundings if item.tensor == name)
    if roundings or name in replaced.declared:
        declared = {key: item for key, item in replaced.declared.items() if key == name}
        update(
            node, roundings=(*own.roundings, *roundings), declared={**own.declared, **declared},
            exact=own.exact or replaced.exact,
        )  # fmt: skip


def _keep_declared(node: Node, replaced: MaseMetadata, inputs: Mapping[str, Node | float]) -> None:
    """Let a new node declare of constants what the node declared in whose place it stands."""
    kind = operator_for(node.target)
    if kind is None or not replaced.declared:
        return
    names = {item: name for name, item in inputs.items() if name in replaced.declared}
    own = {
        name: names[item]
        for name, item in tensor_arguments(node)
        if item in names and isinstance(item, Node) and item.op == "get_attr"
    }
    if own:
        roundings = [
            replace(rounding, tensor=name)
            for name, old in own.items()
            for rounding in replaced.roundings
            if rounding.tensor == old
        ]
        declared = {name: replaced.declared[old] for name, old in own.items()}
        update(node, declared=declared, exact=replaced.exact, roundings=tuple(roundings))


def _store_constants(mg: MaseGraph, node: Node) -> None:
    def stored(value: object) -> Any:
        if not isinstance(value, Tensor):
            return value
        name = free_name(node, f"{node.name}_constant")
        return read_constant(mg.model, node, name, value, metadata(node))

    node.args = map_aggregate(node.args, stored)


def _last_read(node: Node) -> int:
    indices = [user.args[1] for user in node.users if user.target is operator.getitem]
    return max((index for index in indices if isinstance(index, int)), default=0)


def _proxies(mg: MaseGraph, inputs: Mapping[str, Node | float]) -> dict[str, object]:
    tracer = GraphAppendingTracer(mg.fx_graph)
    return {
        name: Proxy(value, tracer) if isinstance(value, Node) else value
        for name, value in inputs.items()
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
