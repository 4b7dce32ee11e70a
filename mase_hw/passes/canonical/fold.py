"""Folding passes: constant expressions become buffers, affine nodes merge into their producer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.fx import Node

from mase_hw._aten import overload
from mase_hw._kinds import Argument
from mase_hw.errors import FormatError
from mase_hw.formats import Format, format_class
from mase_hw.graph import MaseGraph, common, metadata, nodes, update
from mase_hw.graph.rebuild import evaluate, own_copy
from mase_hw.graph.rounded import exact_format, with_factors
from mase_hw.ops import Affine, Call, Foldable, Operator, Weighted
from mase_hw.passes._pass import Result, graph_pass
from mase_hw.passes.configuration import Configuration

# Dimensions of a layer's weights.
MATRIX = 2


@graph_pass
def fold_constants_transform_pass(mg: MaseGraph, *, parameters: bool = True) -> Result:
    """Evaluate every node whose operands are all constant and keep the result as a buffer.

    A parameter that is only seen in another shape or order, as `weight.t()`, stays a parameter,
    unless something else reads it, too.

    Args:
        mg: the graph.
        parameters: false leaves what depends on a parameter alone, so that training still reaches
            the parameter.

    Returns:
        A new graph, and `{"folded": [names of the nodes that became buffers]}`.
    """
    mg = mg.copy()
    values = _constant_values(mg, parameters)
    read = {
        node: value
        for node, value in values.items()
        if isinstance(value, Tensor) and any(user not in values for user in node.users)
    }
    folded = [node for node in read if node.op == "call_function"]
    for node in folded:
        _replace_by_constant(mg, node, read[node], _seen_parameter(read[node], values, read))
    for node in reversed(mg.fx_graph.nodes):
        if node in values and not node.users:
            mg.fx_graph.erase_node(node)
    mg.recompile()
    return mg, {"folded": [node.name for node in folded]}


def _constant_values(mg: MaseGraph, parameters: bool) -> dict[Node, Argument]:
    fixed = (
        node
        for node in mg.nodes
        if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ())
        and (parameters or node.op != "get_attr" or not isinstance(mg.constant(node), nn.Parameter))
    )
    return evaluate(mg.model, fixed)


def _seen_parameter(
    value: Tensor, values: Mapping[Node, object], read: Mapping[Node, Tensor]
) -> Node | None:
    memory = value.untyped_storage().data_ptr()
    if [item.untyped_storage().data_ptr() for item in read.values()].count(memory) > 1:
        return None
    for source, parameter in values.items():
        if source.op == "get_attr" and isinstance(parameter, nn.Parameter):
            shared = parameter.untyped_storage().data_ptr() == memory
            if shared and parameter.numel() == value.numel() and _is_dense(value):
                return source
    return None


def _is_dense(value: Tensor) -> bool:
    dense = 1
    for stride, size in sorted(zip(value.stride(), value.shape, strict=True)):
        if size > 1 and stride != dense:
            return False
        dense *= size
    return True


def _replace_by_constant(mg: MaseGraph, node: Node, value: Tensor, parameter: Node | None) -> None:
    """Put a buffer in a node's place, or a parameter that shows the elements of one."""
    # A name of a module's own, as `to`, is no buffer's.
    target = f"folded.{node.name}{'_value' if hasattr(nn.Module, node.name) else ''}"
    held = own_copy(value.detach())
    if parameter is not None:
        held = nn.Parameter(held, requires_grad=mg.constant(parameter).requires_grad)
    pruned = parameter is not None and metadata(parameter).pruned
    spec = nodes.spec_of(value) if metadata(node).common else None
    known = nodes.constant_metadata(node, spec, pruned=pruned)
    node.replace_all_uses_with(nodes.read_constant(mg.model, node, target, held, known))


@graph_pass
def fold_into_producer_transform_pass(
    mg: MaseGraph, *, config: Mapping[str, object] | None = None
) -> Result:
    """Merge nodes into the constants of the node before them, where their operator knows how.

    A node merges when it is the only user of its producer's result, and where the producer's
    weights are not to be rounded to a few values, as signs or powers of two: its factors would be
    lost with what is rounded away, and another function than the model's be left. Nor does it where
    the weights are values of their format as they are, because the model rounds them itself.

    Args:
        mg: the graph, with common metadata.
        config: the number formats that the graph is to have, or the space of a search for them;
            without it every node merges, and a later quantization refuses such formats.

    Returns:
        A new graph, and `{"folded": {node: producer}}`.
    """
    mg = mg.copy()
    folded: dict[str, str] = {}
    formats = None if config is None else Configuration.parse(config)
    for node in mg.nodes:
        producer = _foldable_producer(node)
        if producer is None:
            continue
        call, before = mg.call(node), mg.call(producer)
        chosen = None if metadata(producer).exact else formats
        if chosen is not None and not _takes_factors(chosen, producer, before):
            continue
        constants = _merged(call, before, exact=metadata(producer).exact)
        kept = None if constants is None else _kept_formats(call, producer, before, constants)
        if constants is None or kept is None:
            continue
        _set_constants(mg, producer, before, constants, node)
        update(producer, folded=True, declared=kept)
        node.replace_all_uses_with(producer)
        nodes.erase_node(node)
        folded[node.name] = producer.name
    for node in reversed(mg.fx_graph.nodes):
        if node.op == "get_attr" and not node.users:
            nodes.erase_node(node)
    mg.recompile()
    return mg, {"folded": folded}


def _merged(call: Call, producer: Call, *, exact: bool) -> Mapping[str, Tensor] | None:
    operator = call.operator
    if constants := Foldable.of(operator).fold(call, producer):
        return constants
    weighted = Weighted.of(producer.operator)
    weight = producer.constants.get("weight") if weighted.scales else None
    if not isinstance(operator, Affine) or not (exact or operator.merges):
        return None
    affine = operator.affine(call)
    if affine is None or weight is None or weight.dim() < MATRIX:
        return None
    rank, axis = len(call.result.shape), weighted.result_axis
    dim, count = rank - 1 if weight.dim() == MATRIX else 1, weight.shape[axis]
    each = []
    for values in affine:
        shape = (*[1] * (rank - values.dim()), *values.shape)
        if math.prod(shape) != shape[dim] or shape[dim] not in (1, count):
            return None
        each.append(values.double().reshape(-1).expand(count))
    if producer.result.shape != call.result.shape or call.result.shape[dim] != count:
        return None
    scale, shift = each
    bias = producer.constants.get("bias", torch.zeros_like(shift))
    return {
        "weight": weight.double() * scale.reshape(-1, *[1] * (weight.dim() - 1 - axis)),
        "bias": bias.double() * scale + shift,
    }


def _takes_factors(config: Configuration, node: Node, call: Call) -> bool:
    entry = config.for_node(node.name, common(node).operator)
    names = entry.get("weight_name") or entry.get("name")
    widths = entry.get("weight_width", entry.get("data_in_width"))
    each: list[Mapping[str, object]] = [{"width": width} for width in _choices(widths, int)]
    classes = [format_class(str(name)) for name in _choices(names, str)]
    if not all(cls.takes_factors(fields) for cls in classes for fields in each or [{}]):
        return False
    weight = call.constants.get("weight")
    return weight is None or not any(_holds(cls, entry, weight) for cls in classes)


def _holds(cls: type[Format], entry: Mapping[str, object], weight: Tensor) -> bool:
    """True for weights that are values of a format already, so that rounding leaves them."""
    keys = {key: f"weight_{key}" for key in cls.field_names()}
    fields = {key: entry[word] for key, word in keys.items() if word in entry}
    if not fields or any(isinstance(value, Mapping | list | tuple) for value in fields.values()):
        return False
    try:
        number = cls.fit_values(weight, **fields)
    except FormatError:
        # Quantization says so, and where.
        return False
    return bool(torch.equal(number.round_values(weight), weight))


def _choices(value: object, kind: type) -> list[object]:
    if isinstance(value, Mapping):
        return [item for inner in value.values() for item in _choices(inner, kind)]
    if isinstance(value, list | tuple):
        return [item for inner in value for item in _choices(inner, kind)]
    return [value] if isinstance(value, kind) and not isinstance(value, bool) else []


def _foldable_producer(node: Node) -> Node | None:
    if node.op != "call_function" or common(node).operator is None:
        return None
    streams = [operand for operand in node.all_input_nodes if operand.op != "get_attr"]
    if len(streams) != 1 or len(streams[0].users) != 1:
        return None
    producer = streams[0]
    if producer.op != "call_function" or common(producer).operator is None:
        return None
    if metadata(node).declared or (metadata(producer).declared and not metadata(producer).exact):
        # The layer rounds its weights as they are.
        return None
    return producer


def _kept_formats(
    call: Call, node: Node, before: Call, constants: Mapping[str, Tensor]
) -> Mapping[str, Format] | None:
    """Return the formats that a node declares of its new constants; None where there are none.

    The codes of weights stay, their scales take the factors.
    """
    declared = dict(metadata(node).declared)
    if not metadata(node).exact:
        return declared
    ones = {name: torch.ones_like(value) for name, value in before.constants.items()}
    factors = _merged(call, replace(before, constants=ones, _known={}), exact=True)
    axis = Weighted.of(before.operator).result_axis
    weight = None if factors is None else factors.get("weight")
    if weight is not None and "weight" in declared:
        rows = weight.movedim(axis, 0).flatten(1)
        if not torch.equal(rows, rows[:, :1].expand_as(rows)):
            return None
        if not bool((rows[:, 0] == 1).all()):
            number = with_factors(declared["weight"], rows[:, 0], axis)
            if number is None:
                return None
            declared["weight"] = number
    if "bias" in constants:
        number = exact_format(constants["bias"].float())
        if number is None:
            return None
        declared["bias"] = number
    return declared


def _set_constants(
    mg: MaseGraph, node: Node, call: Call, constants: Mapping[str, Tensor], folded: Node
) -> None:
    """Give a node new constant operands, as parameters where its old ones were, or the folded."""
    old = [
        operand
        for item in (node, folded)
        for operand in item.all_input_nodes
        if operand.op == "get_attr"
    ]
    trained = any(isinstance(mg.constant(operand), nn.Parameter) for operand in old)
    pruned = {
        name: metadata(value).pruned
        for name, value in nodes.tensor_arguments(node)
        if isinstance(value, Node)
    }
    dtype = mg.constant(old[0]).dtype if old else torch.get_default_dtype()
    operands = dict(common(node).operands)
    for operand, value in constants.items():
        tensor = value.detach().to(dtype).clone()
        spec, held = nodes.spec_of(tensor), nn.Parameter(tensor) if trained else tensor
        known = nodes.constant_metadata(node, spec, pruned=pruned.get(operand, False))
        constant = nodes.read_constant(mg.model, node, f"{node.name}_{operand}_folded", held, known)
        _set_argument(node, call.operator, operand, constant)
        previous = operands.get(operand)
        operands[operand] = spec if previous is None else spec.with_format(previous.format)
    update(node, common=replace(common(node), operands=operands))


def _set_argument(node: Node, operator: Operator, operand: str, value: Node) -> None:
    """Set the argument that becomes `operand`, filling in defaults before it."""
    target = overload(node.target)
    args = list(node.args)
    for position, argument in enumerate(target._schema.arguments):
        if position == len(args):
            args.append(node.kwargs.get(argument.name, argument.default_value))
        if operator.operand_names.get(argument.name, argument.name) == operand:
            args[position] = value
            names = [item.name for item in target._schema.arguments[: len(args)]]
            node.args = tuple(args)
            node.kwargs = {key: item for key, item in node.kwargs.items() if key not in names}
            return
