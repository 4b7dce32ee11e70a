"""Roundings of a model go up past what moves or chooses elements, to what computes them."""

from __future__ import annotations

import math

import torch
from torch.fx import Node

from mase_hw._aten import overload
from mase_hw.errors import UnsupportedError
from mase_hw.formats import Format
from mase_hw.graph.calls import aten_arguments, tensor_arguments
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import CommonMetadata, common, location, metadata, update
from mase_hw.graph.rounded import is_rounding, rounded_format
from mase_hw.graph.streams import stream_operands
from mase_hw.ops import Choosing, Elementwise, Numeric, Operator
from mase_hw.passes._insert import free_name, read_constant
from mase_hw.passes.canonical.remove_identity import erase_node
from mase_hw.passes.formats.edges import operator_at, operator_of

# Codes that are tried one by one.
MAX_WIDTH_BITS = 16
ENDS = torch.tensor([-math.inf, math.inf])


def hoist(mg: MaseGraph, rounding: Node) -> bool:
    """Move a rounding up past a node that commutes with it, or drop one that does nothing."""
    (producer,) = rounding.all_input_nodes
    if is_rounding(producer) and number_of(producer) == number_of(rounding):
        join(mg, producer, rounding)
        return True
    if producer.op != "call_function" or not commutes_with_rounding(mg, producer):
        return False
    if not gives_reals(producer):
        return False
    if _read_otherwise(producer) is not None:
        return False
    number = asked(producer)
    if number is None or _moves_bounds(mg, producer) or not _may_round_operands(producer):
        return False
    update(producer, exact=True)
    _round_operands(mg, producer, rounding)
    for user in list(producer.users):
        user.replace_all_uses_with(producer)
        erase_node(mg, user)
    if _does_nothing(mg, producer, number):
        producer.replace_all_uses_with(producer.all_input_nodes[0])
        erase_node(mg, producer)
    return True


def join(mg: MaseGraph, node: Node, rounding: Node) -> None:
    """Let a node give what a rounding behind it gives."""
    joined = dict.fromkeys((*metadata(node).roundings, *metadata(rounding).roundings))
    update(node, roundings=tuple(joined))
    rounding.replace_all_uses_with(node)
    erase_node(mg, rounding)


def _round_operands(mg: MaseGraph, node: Node, rounding: Node) -> None:
    """Round every stream that a node takes, as its result is."""
    target = overload(rounding.target)
    if names_chosen(node):
        _round_constants(mg, node, rounding)
    for producer in {item: None for _, item in chosen(node)}:
        name = free_name(mg, f"{producer.name}_rounded")
        arguments = producer, *rounding.args[1:]
        with mg.fx_graph.inserting_before(node):
            rounded = mg.fx_graph.create_node("call_function", target, arguments, name=name)
        spec = common(producer).results["data_out_0"].with_format(None)
        rounded.meta["mase"] = metadata(rounding)
        operator = common(rounding).operator
        known = CommonMetadata(operator, {"data_in_0": spec}, {"data_out_0": spec})
        update(rounded, common=known)
        _replace_operands(node, producer, rounded)


def names_chosen(node: Node) -> tuple[str, ...]:
    """Names of the operands of which a node gives elements; none where it computes, or moves."""
    operator = operator_at(node)
    return operator.chosen if isinstance(operator, Choosing) else ()


def chosen(node: Node) -> list[tuple[str, Node]]:
    """The streams of which a node gives elements, by operand; all but of one that chooses."""
    names = names_chosen(node)
    return [(name, item) for name, item in stream_operands(node) if not names or name in names]


def _may_round_operands(node: Node) -> bool:
    """True where what a node chooses from is rounded already, or nothing else reads it."""
    streams = [item for _, item in chosen(node)]
    return not names_chosen(node) or (
        bool(streams)
        and all(_is_moved_rounding(item) or set(item.users) == {node} for item in streams)
    )


def _is_moved_rounding(node: Node) -> bool:
    """True for a rounding, and for what only moves its elements."""
    while not is_rounding(node):
        operator = operator_at(node)
        if operator is None or not commutes(operator) or len(node.all_input_nodes) != 1:
            return False
        (node,) = node.all_input_nodes
    return True


def _replace_operands(node: Node, producer: Node, rounded: Node) -> None:
    """Let a node take a rounded stream in place of one, but what decides what it chooses."""
    operands = dict(tensor_arguments(node, operator_of(node).operand_names))
    names = {name for name, _ in chosen(node)}
    if all(name in names for name, item in operands.items() if item is producer):
        node.replace_input_with(producer, rounded)
        return
    fields = overload(node.target)._schema.arguments
    named = operator_of(node).operand_names
    for place, item in enumerate(node.args):
        if item is producer and named.get(fields[place].name, fields[place].name) in names:
            node.update_arg(place, rounded)


def _round_constants(mg: MaseGraph, node: Node, rounding: Node) -> None:
    """Round the constants of which a node gives elements, and declare their format."""
    operands, declared = dict(tensor_arguments(node, operator_of(node).operand_names)), {}
    number = number_of(rounding)
    for name, values in mg.call(node).constants.items():
        item, own = operands[name], metadata(node).declared.get(name)
        if name not in names_chosen(node):
            continue
        declared[name] = number
        if isinstance(item, Node):
            exact = values if own is None else own.decode(own.encode(values))
            target = free_name(mg, f"{node.name}_{name}_rounded")
            rounded = number.round_values(exact).to(values.dtype)
            node.replace_input_with(item, read_constant(mg, node, target, rounded, metadata(item)))
    joined = dict.fromkeys((*metadata(node).roundings, *metadata(rounding).roundings))
    update(node, declared={**metadata(node).declared, **declared}, roundings=tuple(joined))


def _does_nothing(mg: MaseGraph, node: Node, number: Format) -> bool:
    """True for a function that gives every code of a format back, as a bound beyond them does."""
    operator, streams = operator_of(node), stream_operands(node)
    if not isinstance(operator, Elementwise) or len(streams) != 1 or mg.call(node).constants:
        return False
    if number.bits_per_element > MAX_WIDTH_BITS or number.name not in operator.formats:
        return False
    low, high = number.encode(ENDS).tolist()
    if low > high:
        # Codes of floats, the sign beside: no bound leaves both of their zeros.
        return False
    codes = torch.arange(low, high + 1)
    operands = {"data_in_0": number.decode(codes)}
    values = operator.compute(node.target, aten_arguments(node), operands)
    return torch.equal(number.encode(values), codes)


def gives_reals(node: Node) -> bool:
    return common(node).results["data_out_0"].dtype.startswith(("float", "bfloat"))


def _moves_bounds(mg: MaseGraph, node: Node) -> bool:
    """True where a rounding that has gone past a node has rounded its bounds."""
    producers = [item for _, item in stream_operands(node)]
    passed = metadata(node).exact and len(producers) == 1 and is_rounding(producers[0])
    if not passed or names_chosen(node):
        return False
    number, constants = number_of(producers[0]), mg.call(node).constants.values()
    kept = all(torch.equal(number.round_values(item), item) for item in constants)
    return not (kept and keeps_bounds(node, number))


def keeps_bounds(node: Node, number: Format) -> bool:
    """True where the bounds of a node, or what it pads with, are numbers of a format."""
    pads = any(item.name == "value" for item in overload(node.target)._schema.arguments)
    if len(stream_operands(node)) > 1 or names_chosen(node):
        return True
    if not (isinstance(operator_of(node), Elementwise) or pads):
        return True
    shape = common(node).operands["data_in_0"].shape
    for end in number.decode(number.encode(ENDS)).tolist():
        result = overload(node.target)(torch.full(shape, end), *node.args[1:], **node.kwargs)
        if not torch.equal(number.round_values(result), result):
            return False
    return True


def commutes(operator: Operator) -> bool:
    return Numeric.of(operator).keeps_format


def commutes_with_rounding(mg: MaseGraph, node: Node) -> bool:
    """True for a node that keeps formats, or chooses between elements of its operands."""
    operator = operator_at(node)
    if operator is None or commutes(operator):
        return operator is not None and not Numeric.of(operator).jumps
    return isinstance(operator, Choosing)


def asked(node: Node) -> Format | None:
    """The one format to which all that reads a node rounds it; None where one does not.

    Raises:
        UnsupportedError: where there are several.
    """
    users = [user for user in node.users if is_rounding(user)]
    if not users:
        return None
    number, different = number_of(users[0]), _read_otherwise(node)
    if different is None:
        return number
    also = f"not by {different}"
    if is_rounding(different):
        also = f"to {number_of(different)} by {different.name}"
    raise UnsupportedError(
        f"{node.name} ({location(node)}) is rounded to {number} by {users[0].name}, and {also}; "
        "exact hardware has one rounding of a result: let all that read it read the rounded one"
    )


def _read_otherwise(node: Node) -> Node | None:
    """First reader of a tensor that does not round it as its first rounding does."""
    numbers = {user: number_of(user) if is_rounding(user) else None for user in node.users}
    number = next((item for item in numbers.values() if item is not None), None)
    return next((user for user, item in numbers.items() if item != number), None)


def number_of(node: Node) -> Format:
    number = rounded_format(node)
    if number is None:
        raise UnsupportedError(f"{node.name} ({location(node)}) rounds to codes that no format has")
    return number
