"""Low-rank adapters: insert, train, and fuse them into the weights again.

A layer's weight W stays as it is and `B A` of a small rank is learned beside it: `y = W x + (a / r)
B A x` (Hu et al. 2021, arXiv:2106.09685). The adapters are those of `peft`; this file only brings
the layers of a graph into the form that it takes, and back.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.fx import Node

from mase_hw._checks import check_integer, check_share
from mase_hw._kinds import Argument, Table
from mase_hw.errors import ConfigError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import common, metadata, tensor_arguments, update
from mase_hw.graph.rebuild import set_tensor
from mase_hw.ops import Weighted, operator_for
from mase_hw.passes._pass import Result, graph_pass
from mase_hw.passes.canonical.common_metadata import add_common_metadata_analysis_pass
from mase_hw.passes.canonical.decompose import with_layers
from mase_hw.registry import nearest

FOLDER = "adapted"
ADAPTED, FROZEN = "adapted", "frozen"


@dataclass(frozen=True)
class _Adapted:
    """What a node was before it became a module with adapters.

    Attributes:
        target: the ATen overload.
        args: its arguments: ("stream", None), ("constant", path) or ("value", value).
        constants: path of every constant by operand name.
        meta: of the constants' nodes, by path.
        names: of those nodes, by path.
    """

    target: Any
    args: tuple[tuple[str, Argument], ...]
    constants: Mapping[str, str]
    meta: Mapping[str, Table]
    names: Mapping[str, str]


@graph_pass
def insert_lora_adapter_transform_pass(
    mg: MaseGraph,
    *,
    rank: int = 8,
    alpha: int | None = None,
    drop_rate: float = 0.0,
    nodes: str | Sequence[str] | None = None,
    whole: Sequence[str] = (),
    seed: int = 0,
) -> Result:
    """Put adapters beside the weights; from now on they alone are trained.

    Args:
        mg: a graph without number formats.
        rank: of the adapters.
        alpha: their scale, the rank when not given.
        drop_rate: the share of adapter inputs that training drops.
        nodes: names of layers or expressions that match a whole name, all that can have adapters
            when not given.
        whole: names of nodes whose own parameters are trained too, such as a new classifier.
        seed: of the first adapters.

    Returns:
        A new graph, and `trainable`, the elements of trained parameters before and after,
        `parameters`, of all, and `nodes`, the layers with adapters.

    Raises:
        ConfigError: for an argument that is not legal, or a layer that cannot have adapters.
    """
    import peft

    check_integer("adapters: rank", rank, 1)
    check_share("adapters: drop_rate", drop_rate)
    alpha = rank if alpha is None else alpha
    if mg.is_quantized:
        raise ConfigError("adapters: the graph is quantized; insert, train and fuse, then quantize")
    mg = with_layers(mg).copy()
    if not all(metadata(node).common for node in mg.nodes):
        mg, _ = add_common_metadata_analysis_pass(mg, {})
    before = trainable(mg)
    modules = _modules(mg)
    trained = _parameters_of(mg, whole)
    names = _chosen(nodes, modules, whole)
    if not names:
        raise ConfigError(f"adapters: {mg.name} has no layer that can have them")
    for node in mg.nodes:
        if node.op == "get_attr" and not mg.constant(node).requires_grad:
            node.meta[FROZEN] = True
    for name in names:
        _to_module(mg, mg.node(name), modules[name])
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = peft.LoraConfig(
            r=rank,
            lora_alpha=alpha,
            lora_dropout=drop_rate,
            target_modules=[f"{FOLDER}.{name}" for name in names],
        )
        peft.inject_adapter_in_model(config, mg.model)
    for name in names:
        _set_options(mg.node(name), {"rank": rank, "alpha": alpha})
    for parameter in trained:
        parameter.requires_grad_(True)
    mg.recompile()
    parameters = sum(item.numel() for item in mg.model.parameters())
    info = {"trainable": [before, trainable(mg)], "parameters": parameters, "nodes": list(names)}
    return mg, info


def _chosen(
    given: str | Sequence[str] | None, known: Collection[str], whole: Collection[str]
) -> list[str]:
    """Return the layers that names and expressions select, in the order of the graph."""
    if given is None:
        return [name for name in known if name not in whole]
    selected: set[str] = set()
    for pattern in [given] if isinstance(given, str) else given:
        try:
            found = [name for name in known if name == pattern or re.fullmatch(pattern, name)]
        except (re.error, TypeError) as error:
            raise ConfigError(f"adapters: {pattern!r} is no name or expression: {error}") from error
        if not found:
            raise ConfigError(f"adapters: {pattern!r} cannot have any; {nearest(pattern, known)}")
        selected |= set(found)
    return [name for name in known if name in selected]


@graph_pass
def fuse_lora_weights_transform_pass(mg: MaseGraph) -> Result:
    """Add the adapters to the weights: the graph has its operators back, and trains as before.

    Args:
        mg: a graph with adapters.

    Returns:
        A new graph, and `{"fused": [names of the layers]}`.

    Raises:
        ConfigError: when there are no adapters.
    """
    mg = mg.copy()
    nodes = [node for node in mg.nodes if ADAPTED in node.meta]
    if not nodes:
        raise ConfigError(f"adapters: {mg.name} has none to fuse")
    for node in mg.nodes:
        if node.op == "get_attr" and isinstance(mg.constant(node), nn.Parameter):
            mg.constant(node).requires_grad_(not node.meta.pop(FROZEN, False))
    for node in nodes:
        _from_module(mg, node)
    mg.recompile()
    return mg, {"fused": [node.name for node in nodes]}


def trainable(mg: MaseGraph) -> int:
    """Return the elements of the parameters that are trained."""
    return sum(item.numel() for item in mg.model.parameters() if item.requires_grad)


def _modules(mg: MaseGraph) -> dict[str, nn.Module]:
    """Return every node that can be a module with constants of its own, and that module."""
    found = {}
    for node in mg.nodes:
        operator = operator_for(node.target) if node.op == "call_function" else None
        module = Weighted.of(operator).as_module(mg.call(node)) if operator is not None else None
        if module is not None:
            found[node.name] = module
    return found


def _parameters_of(mg: MaseGraph, names: Sequence[str]) -> list[nn.Parameter]:
    found = []
    for name in names:
        for item in mg.node(name).all_input_nodes:
            if item.op == "get_attr" and isinstance(mg.constant(item), nn.Parameter):
                found.append(mg.constant(item))
    if names and not found:
        raise ConfigError(f"adapters: {', '.join(names)} have no parameters to train whole")
    return found  # type: ignore[return-value]


def _to_module(mg: MaseGraph, node: Node, module: nn.Module) -> None:
    """Let a module compute what a node does, from a copy of the node's constants."""
    operator = operator_for(node.target)
    assert operator is not None
    constants, stream = {}, None
    for name, item in tensor_arguments(node):
        if isinstance(item, Node) and item.op == "get_attr":
            constants[name] = item
        elif isinstance(item, Node):
            stream = item
    assert stream is not None
    for name, item in constants.items():
        parameter = getattr(module, name)
        parameter.data = mg.constant(item).detach().clone()
    record = _Adapted(
        node.target,
        tuple(_argument(item, stream) for item in node.args),
        {name: str(item.target) for name, item in constants.items()},
        {str(item.target): dict(item.meta) for item in constants.values()},
        {str(item.target): item.name for item in constants.values()},
    )
    mg.model.add_submodule(f"{FOLDER}.{node.name}", module)
    with mg.fx_graph.inserting_before(node):
        new = mg.fx_graph.call_module(f"{FOLDER}.{node.name}", (stream,))
    new.meta = {**node.meta, ADAPTED: record}
    _replace(mg, node, new)
    for item in constants.values():
        if not item.users:
            mg.fx_graph.erase_node(item)


def _argument(item: object, stream: Node) -> tuple[str, Argument]:
    if item is stream:
        return "stream", None
    return ("constant", str(item.target)) if isinstance(item, Node) else ("value", item)


def _from_module(mg: MaseGraph, node: Node) -> None:
    """Let the operator compute again what a module with adapters does."""
    record: _Adapted = node.meta[ADAPTED]
    layer: Argument = mg.model.get_submodule(str(node.target))
    layer.merge(safe_merge=True)
    base = layer.get_base_layer()
    made: dict[str, Node] = {}
    read = {str(item.target) for item in mg.nodes if item.op == "get_attr"}
    for name, path in record.constants.items():
        value = getattr(base, name).detach().clone()
        frozen = bool(record.meta[path].get(FROZEN, False))
        # A weight that others read too, as an embedding does, stays theirs.
        suffix = f"_fused_{node.name}" if path in read else ""
        target = f"{path}{suffix}"
        set_tensor(mg.model, target, nn.Parameter(value, requires_grad=not frozen))
        with mg.fx_graph.inserting_before(node):
            made[path] = mg.fx_graph.get_attr(target)
        made[path].meta = dict(record.meta[path])
        made[path].name = f"{record.names[path]}{suffix}"
    args = tuple(
        node.args[0] if kind == "stream" else made[value] if kind == "constant" else value
        for kind, value in record.args
    )
    with mg.fx_graph.inserting_before(node):
        new = mg.fx_graph.call_function(record.target, args)
    new.meta = {key: value for key, value in node.meta.items() if key != ADAPTED}
    _set_options(new, {})
    path = str(node.target)
    _replace(mg, node, new)
    mg.model.delete_submodule(path)
    assert common(new).operator is not None


def _set_options(node: Node, options: Table) -> None:
    update(node, common=replace(common(node), options=options))


def _replace(mg: MaseGraph, old: Node, new: Node) -> None:
    """Put a node in the place of another, under its name."""
    name = old.name
    old.replace_all_uses_with(new)
    mg.fx_graph.erase_node(old)
    new.name = name
