"""Making a fresh graph module from the nodes of another, with names and state of our own."""

from __future__ import annotations

import copy
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Interpreter, Node
from torch.fx._lazy_graph_module import _LazyGraphModule

from mase_hw._kinds import Argument, Table


def ancestors(node: Node) -> Iterator[Node]:
    """Yield a node and all that it is computed of, the nearest first."""
    return reached(node, lambda item: item.all_input_nodes)


def descendants(node: Node) -> Iterator[Node]:
    """Yield a node and all that depend on it, the nearest first."""
    return reached(node, lambda item: item.users)


def reached(node: Node, neighbours: Callable[[Node], Iterable[Node]]) -> Iterator[Node]:
    """Yield a node and all that its neighbours lead to, the nearest first."""
    seen, waiting = {node}, [node]
    for item in waiting:
        yield item
        fresh = [other for other in dict.fromkeys(neighbours(item)) if other not in seen]
        seen.update(fresh)
        waiting += fresh


def evaluate(
    module: GraphModule,
    nodes: Iterable[Node],
    values: Mapping[Node, Argument] = MappingProxyType({}),
    blanks: Mapping[Node, Mapping[Node, Argument]] = MappingProxyType({}),
) -> dict[Node, Argument]:
    """Return the values of nodes that constants and further values decide.

    Args:
        module: the graph.
        nodes: some of its nodes, in graph order.
        values: of nodes that are not computed here.
        blanks: by node, what stands for operands of which it reads the shape alone.
    """
    interpreter, computed = Interpreter(module), dict(values)
    with torch.no_grad():
        for node in nodes:
            operands = ChainMap(computed, dict(blanks.get(node, {})))
            decided = all(item in operands for item in node.all_input_nodes)
            if decided and node.op in ("get_attr", "call_function") and node not in values:
                interpreter.env = operands  # type: ignore[assignment]
                computed[node] = interpreter.run_node(node)
    return computed


def append_node(
    graph: Graph, op: str, target: Any, args: Any, kwargs: Any, name: str, meta: Table
) -> Node:
    """Append a node that is called exactly `name`, which must be free."""
    node = graph.create_node(op, target, args, kwargs, name=name)
    if node.name != name:
        # torch.fx numbers names by their stem; a free name is kept as it is asked for here.
        node.name = name
        graph._graph_namespace._used_names.add(name)
    node.meta = dict(meta)
    return node


def rebuild(
    module: GraphModule,
    names: Mapping[Node, str],
    output: Callable[[Argument], Argument] = lambda structure: structure,
    meta: Callable[[Node], Table] = lambda node: node.meta,
    own: bool = True,
) -> GraphModule:
    """Return a copy of `module` whose nodes have other names.

    Args:
        module: a graph module.
        names: the new name of every node.
        output: what the output node returns, given what it returned.
        meta: the metadata of a node's copy.
        own: whether its parameters and buffers are copies, too.
    """
    graph = Graph()
    copies: dict[Node, Node] = {}

    def copied(argument: Argument) -> object:
        return torch.fx.map_arg(argument, copies.__getitem__)

    for node in module.graph.nodes:
        args = (output(node.args[0]),) if node.op == "output" else node.args
        copies[node] = append_node(
            graph, node.op, node.target, copied(args), copied(node.kwargs), names[node], meta(node)
        )
    model = _LazyGraphModule(module, graph)
    if own:
        _own_state(model)
    return model


def _own_state(model: GraphModule) -> None:
    """Replace what the graph reads by copies; shared tensors stay shared."""
    memo: dict[int, object] = {}
    modules, tensors = (
        dict.fromkeys(str(node.target) for node in model.graph.nodes if node.op == op)
        for op in ("call_module", "get_attr")
    )
    for target in modules:
        parent, leaf = _parent(model, target)
        parent.add_module(leaf, copy.deepcopy(parent.get_submodule(leaf), memo))
    inside = tuple(f"{target}." for target in modules)
    for target in tensors:
        if not target.startswith(inside):
            parent, leaf = _parent(model, target)
            _set(parent, leaf, _copy_tensor(getattr(parent, leaf), memo))


def get_tensor(module: nn.Module, target: object) -> Tensor:
    """Return the parameter or buffer at a dotted path."""
    path, _, leaf = str(target).rpartition(".")
    value: Tensor = getattr(module.get_submodule(path), leaf)
    return value


def set_tensor(module: nn.Module, target: str, value: Tensor) -> None:
    """Set the parameter or buffer at a dotted path, making the modules on the way."""
    _set(*_parent(module, target), value)


def _set(parent: nn.Module, leaf: str, value: Tensor) -> None:
    if isinstance(value, nn.Parameter):
        parent._buffers.pop(leaf, None)
        parent.register_parameter(leaf, value)
    else:
        parent._parameters.pop(leaf, None)
        parent.register_buffer(leaf, value)


def drop_unused_state(module: GraphModule) -> None:
    """Remove the parameters and buffers that no node reads."""
    used = {str(node.target) for node in module.graph.nodes if node.op == "get_attr"}
    kept = tuple(f"{node.target}." for node in module.graph.nodes if node.op == "call_module")
    for path, owner in list(module.named_modules(remove_duplicate=False)):
        for leaf in [*owner._parameters, *owner._buffers]:
            target = f"{path}.{leaf}" if path else leaf
            if target not in used and not target.startswith(kept):
                delattr(owner, leaf)


def spread_out(module: nn.Module) -> None:
    """Give buffers that repeat one element, as expanded constants do, memory to be written to."""
    for target, value in list(module.named_buffers()):
        if any(
            size > 1 and not step for size, step in zip(value.shape, value.stride(), strict=True)
        ):
            set_tensor(module, target, value.contiguous())


def _parent(module: nn.Module, target: str) -> tuple[nn.Module, str]:
    path, _, leaf = target.rpartition(".")
    for part in path.split(".") if path else []:
        if part not in module._modules:
            module.add_module(part, nn.Module())
        module = module.get_submodule(part)
    return module, leaf


def _copy_tensor(value: Tensor, memo: dict[int, Argument]) -> Tensor:
    if id(value) not in memo:
        cloned = own_copy(value.detach())
        if isinstance(value, nn.Parameter):
            cloned = nn.Parameter(cloned, requires_grad=value.requires_grad)
        memo[id(value)] = cloned
    copied: Tensor = memo[id(value)]
    return copied


def own_copy(value: Tensor) -> Tensor:
    """Return a tensor of its own, whose memory is copied when either of the two is written."""
    try:
        return torch._lazy_clone(value)
    except RuntimeError:
        # Memory that is not torch's own, such as a file's.
        return value.clone()
