"""Calls: what an operator sees of one node of a graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from mase_hw.errors import UnsupportedError
from mase_hw.graph.nodes import (
    aten_arguments,
    common,
    dtype_name,
    metadata,
    spec_of,
    stream_spec,
    tensor_arguments,
)
from mase_hw.graph.rebuild import get_tensor
from mase_hw.ops import Call, TensorSpec, operator_for


class Reals(Mapping[str, Tensor]):
    """Constant operands in float64: converted when asked for, not kept twice.

    Args:
        tensors: the parameters and buffers themselves, by operand.
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = tensors

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name].to(torch.float64)

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


def constant_value(model: GraphModule, value: Node | float) -> Tensor | None:
    """Return the value of a parameter, buffer or Python scalar, None for a stream."""
    if not isinstance(value, Node):
        return torch.tensor(value, dtype=torch.float64)
    if value.op != "get_attr":
        return None
    return get_tensor(model, value.target).detach()


def operands(model: GraphModule, node: Node) -> tuple[dict[str, TensorSpec], Mapping[str, Tensor]]:
    """Return the specs of all tensors a node is given, and the values of the constant ones."""
    specs: dict[str, TensorSpec] = {}
    constants: dict[str, Tensor] = {}
    for name, value in tensor_arguments(node):
        constant = constant_value(model, value)
        if constant is not None:
            if constant.is_complex():
                raise UnsupportedError(
                    f"{node.name} ({metadata(node).source}): {name} is {dtype_name(constant.dtype)}"
                    "; only real numbers are accepted"
                )
            specs[name] = spec_of(constant)
            constants[name] = constant
        elif isinstance(value, Node):
            specs[name] = stream_spec(node, value)
    return specs, Reals(constants)


def bind(model: GraphModule, node: Node, results: Mapping[str, TensorSpec]) -> Call:
    """Return the call of a node whose results' specs are `results`.

    Raises:
        UnsupportedError: when no operator covers the node's target.
    """
    operator = operator_for(node.target)
    if operator is None:
        raise UnsupportedError(
            f"no operator covers {node.target} (node {node.name}) at {metadata(node).source}; "
            "`mase_hw.ops.operators()` lists those that are covered"
        )
    specs, constants = operands(model, node)
    if not specs:
        raise UnsupportedError(
            f"{node.name} ({metadata(node).source}): {node.target} is given no tensor"
        )
    scalars = dict(tensor_arguments(node, {name: name for name in operator.operand_names}))
    given = {item for item in scalars.values() if isinstance(item, Node)}
    attributes = {
        name: value
        for name, value in aten_arguments(node).items()
        if name not in scalars and not _holds(value, given)
    }
    attributes |= _places(node)
    return operator.bind(Call(node.name, operator, specs, results, constants, attributes))


def _places(node: Node) -> dict[str, tuple[bool, ...]]:
    """Return which places of a list of tensors are taken, by argument, where some are not."""
    return {
        name: tuple(item is not None for item in value)
        for name, value in aten_arguments(node).items()
        if isinstance(value, list | tuple)
        and None in value
        and any(isinstance(item, Node) for item in value)
    }


def _holds(value: object, nodes: set[Node]) -> bool:
    if isinstance(value, list | tuple):
        return any(_holds(item, nodes) for item in value)
    return isinstance(value, Node) and value in nodes


def call_of(model: GraphModule, node: Node) -> Call:
    """Return the call of a node with the formats, parallelism and options of its metadata."""
    known = common(node)
    call = bind(model, node, known.results)
    specs = {name: known.operands.get(name, spec) for name, spec in call.operands.items()}
    return replace(call, operands=specs, attributes={**call.attributes, **known.options})
