"""Calls: what an operator sees of one node of a graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import count
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from mase_hw._kinds import Record
from mase_hw.errors import UnsupportedError
from mase_hw.graph.metadata import common, metadata
from mase_hw.graph.rebuild import get_tensor
from mase_hw.ops import OPERAND_NAMES, Call, TensorSpec, operator_for


def dtype_name(dtype: torch.dtype) -> str:
    """Return the name of a torch dtype, such as `float32`."""
    return str(dtype).removeprefix("torch.")


def spec_of(value: Tensor) -> TensorSpec:
    """Return shape and dtype of a tensor."""
    return TensorSpec(tuple(value.shape), dtype_name(value.dtype))


def result_spec(producer: Node) -> TensorSpec:
    """Return the first result of a node whose common metadata is known."""
    return common(producer).results["data_out_0"]


def aten_arguments(node: Node) -> Record:
    """Return the arguments of a node by their names in its schema, defaults filled in."""
    known = _schema(node.target)
    if known is None:
        return {f"argument_{number}": value for number, value in enumerate(node.args)}
    return {argument.name: value for argument, value in _given(node, known)}


def _given(node: Node, known: tuple[_Argument, ...]) -> Iterator[tuple[_Argument, Any]]:
    given, keywords = node.args, node.kwargs
    for position, argument in enumerate(known):
        if position < len(given) and not argument.kwarg_only:
            yield argument, given[position]
        else:
            yield argument, keywords.get(argument.name, argument.default_value)


class _Argument(NamedTuple):
    name: str
    is_tensor: bool
    kwarg_only: bool
    default_value: object


@cache
def _schema(target: object) -> tuple[_Argument, ...] | None:
    """Return the arguments of a target, None for one without a schema; torch is slow to say."""
    schema = getattr(target, "_schema", None)
    if schema is None:
        return None
    return tuple(
        _Argument(
            item.name,
            str(item.type) in {"Tensor", "Optional[Tensor]"},
            item.kwarg_only,
            item.default_value,
        )
        for item in schema.arguments
    )


def tensor_arguments(node: Node, names: Mapping[str, str]) -> Iterator[tuple[str, Node | float]]:
    """Yield (operand name, node or Python scalar) for every tensor a node is given.

    Args:
        node: a `call_function` node.
        names: operand names by ATen argument name; other tensors keep the name of the argument,
            the members of a list become the first of `data_in_0`, `data_in_1`, ... that are
            free.
    """
    known = _schema(node.target)
    if known is None:
        nodes = [value for value in node.args if isinstance(value, Node)]
        yield from ((f"data_in_{number}", value) for number, value in enumerate(nodes))
        return
    used: set[str] = set()
    for argument, value in _given(node, known):
        name = argument.name
        if isinstance(value, Node):
            used.add(names.get(name, name))
            yield names.get(name, name), value
        elif isinstance(value, list | tuple) and any(isinstance(item, Node) for item in value):
            for item in value:
                if isinstance(item, Node):
                    free = next(key for n in count() if (key := f"data_in_{n}") not in used)
                    used.add(free)
                    yield free, item
        elif isinstance(value, int | float) and (argument.is_tensor or name in names):
            used.add(names.get(name, name))
            yield names.get(name, name), value


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
    operator = operator_for(node.target)
    names = operator.operand_names if operator else OPERAND_NAMES
    specs: dict[str, TensorSpec] = {}
    constants: dict[str, Tensor] = {}
    for name, value in tensor_arguments(node, names):
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


def stream_spec(node: Node, producer: Node) -> TensorSpec:
    """Return the result of `producer` that `node` reads."""
    results = common(producer).results
    index = node.args[1] if len(results) > 1 and len(node.args) > 1 else 0
    return results.get(f"data_out_{index}", results["data_out_0"])


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
