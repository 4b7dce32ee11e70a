"""A node of a graph: its metadata, tensors, producers and readers, and new nodes behind it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import count
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.utils._pytree import MappingKey, SequenceKey, tree_flatten_with_path

from mase_hw._kinds import Argument, Record, Setting
from mase_hw.errors import MaseError
from mase_hw.formats import Format
from mase_hw.graph.metadata import CommonMetadata, MaseMetadata
from mase_hw.graph.rebuild import set_tensor
from mase_hw.graph.untrusted import find_operator
from mase_hw.ops import (
    OPERAND_NAMES,
    Numeric,
    Operator,
    TensorSpec,
    operator_for,
    operator_for_role,
    operators,
)


def metadata(node: Node) -> MaseMetadata:
    """Return the metadata of `node`."""
    value = node.meta.get("mase")
    return value if isinstance(value, MaseMetadata) else MaseMetadata()


def location(node: Node) -> str:
    """Return a node's origin: source line, else torch module, else model name."""
    return metadata(node).place


def common(node: Node) -> CommonMetadata:
    """Return the common metadata of `node`, which must have been added."""
    tensors = metadata(node).common
    if tensors is None:
        raise MaseError(
            f"node {node.name} has no common metadata: run add_common_metadata_analysis_pass first"
        )
    return tensors


def update(node: Node, **changes: Setting) -> None:
    """Replace fields of the metadata of `node`."""
    node.meta["mase"] = replace(metadata(node), **changes)


def dtype_name(dtype: torch.dtype) -> str:
    """Return the name of a torch dtype, such as `float32`."""
    return str(dtype).removeprefix("torch.")


def spec_of(value: Tensor) -> TensorSpec:
    """Return shape and dtype of a tensor."""
    return TensorSpec(tuple(value.shape), dtype_name(value.dtype))


def result_spec(producer: Node) -> TensorSpec:
    """Return the first result of a node whose common metadata is known."""
    return common(producer).results["data_out_0"]


def stream_spec(node: Node, producer: Node) -> TensorSpec:
    """Return the result of `producer` that `node` reads."""
    results = common(producer).results
    index = node.args[1] if len(results) > 1 and len(node.args) > 1 else 0
    return results.get(f"data_out_{index}", results["data_out_0"])


def aten_arguments(node: Node) -> Record:
    """Return the arguments of a node by their names in its schema, defaults filled in."""
    if _schema(node.target) is None:
        return {f"argument_{number}": value for number, value in enumerate(node.args)}
    return {argument.name: value for argument, value in _arguments(node)}


def tensor_arguments(
    node: Node, names: Mapping[str, str] | None = None
) -> Iterator[tuple[str, Node | float]]:
    """Yield (operand name, node or Python scalar) for every tensor that a node takes.

    Args:
        node: a `call_function` node.
        names: operand names by ATen argument name, those of its operator if left out; other tensors
            keep the name of the argument, the members of a list become the first of `data_in_0`,
            `data_in_1`, ... that are free.
    """
    if _schema(node.target) is None:
        nodes = [value for value in node.args if isinstance(value, Node)]
        yield from ((f"data_in_{number}", value) for number, value in enumerate(nodes))
        return
    if names is None:
        operator = operator_for(node.target)
        names = operator.operand_names if operator else OPERAND_NAMES
    used: set[str] = set()
    for argument, value in _arguments(node):
        name = names.get(argument.name, argument.name)
        if isinstance(value, list | tuple):
            for item in value:
                if isinstance(item, Node):
                    free = next(key for n in count() if (key := f"data_in_{n}") not in used)
                    used.add(free)
                    yield free, item
        elif isinstance(value, Node) or (
            isinstance(value, int | float) and (argument.is_tensor or argument.name in names)
        ):
            used.add(name)
            yield name, value


def _arguments(node: Node) -> Iterator[tuple[_Argument, Any]]:
    for position, argument in enumerate(_schema(node.target) or ()):
        if position < len(node.args) and not argument.kwarg_only:
            yield argument, node.args[position]
        else:
            yield argument, node.kwargs.get(argument.name, argument.default_value)


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


def stream_operands(node: Node) -> list[tuple[str, Node]]:
    """Return (operand name, producer) for every operand of `node` that streams, in order."""
    return [
        (name, value)
        for name, value in tensor_arguments(node)
        if isinstance(value, Node) and value.op != "get_attr"
    ]


def consumers(node: Node) -> Iterator[tuple[Node, str]]:
    """Yield (consumer, operand name) for every use of `node` by an operator, in graph order."""
    for user in node.users:
        if user.op == "call_function":
            for name, producer in stream_operands(user):
                if producer is node:
                    yield user, name


def refresh_output(model: GraphModule) -> None:
    """Note on the output node what its producers now are."""
    output = model.graph.output_node()
    producers = (leaf for _, leaf in returned(output) if isinstance(leaf, Node))
    operands = {f"data_in_{index}": result_spec(item) for index, item in enumerate(producers)}
    update(output, common=CommonMetadata(None, operands, {}))


def returned(output: Node) -> list[tuple[str, Argument]]:
    """Return the results at an output node by name: see `MaseGraph.output_names`."""
    leaves, _ = tree_flatten_with_path(output.args[0])
    return [(".".join(map(_key, path)) or "output", leaf) for path, leaf in leaves]


def _key(entry: object) -> str:
    if isinstance(entry, SequenceKey):
        return str(entry.idx)
    return str(entry.key) if isinstance(entry, MappingKey) else str(entry)


Formats = Mapping[str, Format | None]


def operator_at(node: Node) -> Operator | None:
    """Operator of a node; None for inputs, constants, results, and what no operator covers."""
    name = common(node).operator if node.op == "call_function" else None
    return None if name is None else operators()[name]


def operator_of(node: Node) -> Operator:
    """Operator of a node that has one."""
    return operators()[str(common(node).operator)]


def casts(node: Node) -> bool:
    """True for a node whose operands and result may differ in format."""
    operator = operator_at(node)
    return operator is not None and operator.casts


def keeps_format(node: Node) -> bool:
    """True for a node whose result takes its operand's format unless configured."""
    return Numeric.of(operator_at(node)).keeps_format


def shares_format(node: Node) -> bool:
    """True for a node whose operands and results are all in one format."""
    return Numeric.of(operator_at(node)).shares_format


def is_cast(node: Node) -> bool:
    """True for what stands between two formats."""
    operator = operator_at(node)
    return operator is not None and operator.role == "cast"


def set_formats(node: Node, operands: Formats, results: Formats | None = None) -> None:
    """Change the formats of some operands and results, in place."""
    tensors = common(node)
    update(
        node,
        common=replace(
            tensors,
            operands=_in_formats(tensors.operands, operands),
            results=_in_formats(tensors.results, results or {}),
        ),
    )


def _in_formats(specs: Mapping[str, TensorSpec], formats: Formats) -> dict[str, TensorSpec]:
    return {name: spec.with_format(formats.get(name, spec.format)) for name, spec in specs.items()}


def set_format(node: Node, number: Format | None) -> None:
    """Give all operands and results of a node one format, in place."""
    every = dict.fromkeys([*common(node).operands, *common(node).results], number)
    set_formats(node, every, every)


def observed_ends(node: Node) -> tuple[float, float]:
    """Least and largest observed value of a result; -1 and 1 where it was not observed."""
    software = metadata(node).software
    values = None if software is None else software.ranges.get("data_out_0")
    return (-1.0, 1.0) if values is None else (values.minimum, values.maximum)


def insert_after(
    producer: Node,
    role: str,
    operand: TensorSpec,
    result: TensorSpec,
    arguments: Sequence[Any] = (),
    stem: str | None = None,
) -> Node:
    """Insert the operator of `role` behind `producer`, with metadata; no use is replaced.

    Args:
        producer: the node whose result is carried.
        role: what the operator is for, see `Operator.role`.
        operand: of the operator.
        result: of the operator.
        arguments: further arguments of its torch operator.
        stem: what its name begins with; the producer's name if left out.
    """
    operator = operator_for_role(role)
    target: Any = find_operator(operator.targets[0])
    name = free_name(producer, f"{stem or producer.name}_{operator.name}")
    with producer.graph.inserting_after(producer):
        node = producer.graph.create_node(
            "call_function", target, (producer, *arguments), {}, name=name
        )
    source = metadata(producer)
    node.meta["mase"] = MaseMetadata(
        module_path=source.module_path,
        source=source.source,
        common=CommonMetadata(operator.name, {"data_in_0": operand}, {"data_out_0": result}),
    )
    return node


def insert_behind(
    node: Node,
    role: str,
    operand: TensorSpec,
    result: TensorSpec,
    arguments: Sequence[object] = (),
    but: Collection[Node] = (),
) -> Node:
    """Insert an operator behind a node for all that reads it, `but` for some."""
    users = [user for user in node.users if user not in but]
    inserted = insert_after(node, role, operand, result, arguments)
    for user in users:
        user.replace_input_with(node, inserted)
    return inserted


def read_constant(
    model: GraphModule, before: Node, target: str, values: Tensor, known: MaseMetadata
) -> Node:
    """Store a constant and read it before a node, as a node of that metadata."""
    set_tensor(model, target, values)
    with before.graph.inserting_before(before):
        read = before.graph.create_node("get_attr", target, name=target)
    read.meta["mase"] = known
    return read


def constant_metadata(
    node: Node, spec: TensorSpec | None = None, *, pruned: bool = False
) -> MaseMetadata:
    """Metadata of a constant that is a part of a node, `spec` where shapes are noted."""
    tensors = CommonMetadata(None, {}, {"data_out_0": spec}) if spec else None
    known = metadata(node)
    return MaseMetadata(known.module_path, known.source, tensors, pruned=pruned)


def free_name(node: Node, stem: str) -> str:
    """Return `stem`, numbered where a node of the same graph has that name."""
    return unique_name(stem, [other.name for other in node.graph.nodes])


def unique_name(stem: str, taken: Collection[str]) -> str:
    """Return `stem`, numbered when it is taken."""
    names = (f"{stem}_{number}" if number else stem for number in count())
    return next(name for name in names if name not in taken)


def result_dtype(role: str, spec: TensorSpec, arguments: Sequence[object]) -> str:
    """Data type that the operator of a role gives: steps of truths are real numbers."""
    target: Any = find_operator(operator_for_role(role).targets[0])
    empty = torch.empty(spec.shape, dtype=getattr(torch, spec.dtype), device="meta")
    return spec_of(target(empty, *arguments)).dtype


def erase_node(node: Node) -> None:
    """Erase a node that nothing uses.

    Raises:
        MaseError: with torch's own reason when it still has users.
    """
    try:
        node.graph.erase_node(node)
    except RuntimeError as error:
        raise MaseError(
            f"node {node.name} at {metadata(node).source} cannot be erased: {error}; "
            "replace its uses first"
        ) from error
