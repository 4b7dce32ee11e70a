"""Constants that a model rounds itself: their values, and the formats that hold their very codes.

A rounding of what is constant becomes a buffer. Its format is noted on the nodes whose operand it
is, as formats that layers declare are, behind what only moves its elements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from mase_hw._kinds import Argument, Record
from mase_hw.arithmetic.requantize import scales
from mase_hw.errors import CaptureError
from mase_hw.formats import Format, make_format
from mase_hw.formats.fixed import Fixed
from mase_hw.formats.scaled_integer import ScaledInteger
from mase_hw.graph.declared import DECLARED
from mase_hw.graph.metadata import Rounding
from mase_hw.graph.naming import operation_name
from mase_hw.graph.nodes import aten_arguments, tensor_arguments
from mase_hw.graph.rebuild import evaluate, set_tensor
from mase_hw.graph.source import origin
from mase_hw.ops import operator_for, operator_for_role
from mase_hw.ops.infrastructure.fake_quantize import format_of

ROUNDING = "rounding"
# Under this key a node says that a model somebody else has quantised declares its formats.
EXACT = "exact"
# And under this one which of them are roundings of its own.
ROUNDINGS = "roundings"
# Significand bits of the reals that a constant without rounding has.
REAL_BITS = 26
_EXACT = "scaled_integer"


@dataclass(frozen=True)
class _Constant:
    """A rounded constant.

    Attributes:
        value: its reals.
        number: its format.
        axis: dimension of its channels, None for one scale.
    """

    value: Tensor
    number: Format
    axis: int | None


def is_rounding(node: Node) -> bool:
    """True if a node rounds to a format of the model's own."""
    return node.op == "call_function" and operator_for(node.target) is operator_for_role(ROUNDING)


def rounded_format(node: Node) -> Format | None:
    """Return the format that a rounding rounds to; None where there is none."""
    return format_of(aten_arguments(node))


def absorb_rounded(module: GraphModule) -> None:
    """Note the formats of rounded constants on the nodes that take them, in place.

    Raises:
        CaptureError: where codes have no format, or what takes them is no operator.
    """
    if not any(map(is_rounding, module.graph.nodes)):
        return
    values = evaluate(
        module,
        [node for node in module.graph.nodes if node.op == "get_attr" or node.all_input_nodes],
    )
    for node in [item for item in module.graph.nodes if is_rounding(item) and item in values]:
        constant = _constant(node, values)
        _declare(node, constant, values, node.name)
    for node in [item for item in module.graph.nodes if is_rounding(item) and item in values]:
        set_tensor(module, f"{node.name}_rounded", values[node])
        with module.graph.inserting_before(node):
            read = module.graph.get_attr(f"{node.name}_rounded")
        read.meta = dict(node.meta)
        node.replace_all_uses_with(read)
        module.graph.erase_node(node)
    _declare_beside(module, values)
    module.graph.eliminate_dead_code(
        is_impure_node=lambda node: node.op in ("placeholder", "output")
    )


def _constant(node: Node, values: dict[Node, Argument]) -> _Constant:
    given, value = aten_arguments(node), values[node]
    channels = len(given.get("scale", ())) > 1
    axis = int(given["axis"]) % max(value.dim(), 1) if channels else None
    number = rounded_format(node)
    if number is None:
        raise CaptureError(
            f"{_place(node)}: codes {given['low']} to {given['high']} around "
            f"{given['zero_point'][0]}, rounded by {given['rounding']}, are those of no format"
        )
    if not torch.equal(number.round_values(value), value):
        raise CaptureError(f"{_place(node)}: its values are not those of {number}")
    return _Constant(value, number, axis)


def _declare(node: Node, constant: _Constant, values: dict[Node, Argument], rounding: str) -> None:
    """Note a format on all that reads a constant, behind what moves it."""
    for user in list(node.users):
        if user.op == "output":
            continue
        if user in values:
            moved = _moved(user, constant, values[user])
            if moved is not None:
                _declare(user, moved, values, rounding)
            continue
        kind = operator_for(user.target) if user.op == "call_function" else None
        if kind is None:
            raise CaptureError(f"{_place(user)}: a rounded constant is taken by no known operator")
        number = constant.number
        if constant.axis is not None:
            number = replace(number, channel_axis=constant.axis)  # type: ignore[call-arg]
        for name, item in tensor_arguments(user):
            if item is node:
                user.meta[EXACT] = True
                mark = Rounding(rounding, name, number)
                user.meta[ROUNDINGS] = (*user.meta.get(ROUNDINGS, ()), mark)
                user.meta[DECLARED] = {**user.meta.get(DECLARED, {}), name: number}


def _moved(user: Node, constant: _Constant, value: Tensor) -> _Constant | None:
    """Return a constant behind a node that moves its elements; None behind what computes."""
    if is_rounding(user):
        return None
    name, axis = operation_name(user), constant.axis
    moves = {"t", "transpose", "permute", "view", "reshape", "unsqueeze", "squeeze", "flatten"}
    moves |= {"clone", "contiguous", "alias", "detach", "detach_", "_to_copy", "to", "expand"}
    if name not in moves:
        raise CaptureError(f"{_place(user)}: {name} computes with a rounded constant of the model")
    if axis is None:
        return _Constant(value, constant.number, None)
    size = constant.value.shape[axis]
    marks = torch.arange(size).reshape(
        [-1 if d == axis else 1 for d in range(constant.value.dim())]
    )
    moved = user.target(  # type: ignore[operator]
        marks.expand(constant.value.shape).to(constant.value.dtype), *user.args[1:], **user.kwargs
    )
    for dim in range(moved.dim()):
        wanted = torch.arange(size).reshape([-1 if d == dim else 1 for d in range(moved.dim())])
        if moved.shape[dim] == size and torch.equal(
            moved, wanted.expand(moved.shape).to(moved.dtype)
        ):
            return _Constant(value, constant.number, dim)
    raise CaptureError(f"{_place(user)}: {name} mixes the channels of a rounded constant")


def _declare_beside(module: GraphModule, values: dict[Node, Argument]) -> None:
    """Give constants without a rounding, beside those with one, formats that hold all of them."""
    for node in module.graph.nodes:
        known = node.meta.get(DECLARED, {})
        kind = operator_for(node.target) if node.op == "call_function" else None
        if not known or kind is None:
            continue
        for name, item in tensor_arguments(node):
            if name in known or not isinstance(item, Node) or item not in values:
                continue
            number = exact_format(values[item])
            if number is not None:
                node.meta[DECLARED] = {**node.meta[DECLARED], name: number}


def with_factors(number: Format, factors: Tensor, axis: int) -> Format | None:
    """Return the format of a constant whose channels are multiplied, which keeps its codes.

    Args:
        number: the constant's format.
        factors: of each channel; codes of one below zero change their sign.
        axis: dimension of the channels.

    Returns:
        None where codes lie around a zero point, or their channels along another dimension.
    """
    count, (steps,) = len(factors), (scales(number),)
    wrong = isinstance(number, ScaledInteger) and (
        not number.centred or (len(steps) > 1 and (number.channel_axis or 0) != axis)
    )
    if wrong or not isinstance(number, ScaledInteger | Fixed):
        return None
    steps = steps * count if len(steps) == 1 else steps
    given = [
        float(step) * (abs(factor) or 1.0)
        for step, factor in zip(steps, factors.tolist(), strict=True)
    ]
    symmetric = isinstance(number, ScaledInteger) and number.symmetric
    # The least code has no opposite.
    wider = int(bool((factors < 0).any()) and not symmetric)
    return ScaledInteger(
        number.width + wider, tuple(given), (0,) * count, number.signed or bool(wider), symmetric,
        axis,
    )  # fmt: skip


def exact_format(value: Tensor) -> Format | None:
    """Return integers, each channel with a power of two, that hold a vector of reals exactly."""
    if value.dim() != 1 or not value.is_floating_point() or not bool(value.isfinite().all()):
        return None
    exponents = [math.frexp(item)[1] if item else 0 for item in value.tolist()]
    scales = [math.ldexp(1.0, exponent - REAL_BITS + 2) for exponent in exponents]
    fields: Record = {"scale": scales[0]}
    if len(scales) > 1:
        fields = {"scale": tuple(scales), "zero_point": (0,) * len(scales), "channel_axis": 0}
    return make_format({"name": _EXACT, "width": REAL_BITS, **fields})


def _place(node: Node) -> str:
    path, source = origin(node)
    return str(source) if source.file else f"node {path or node.name}"
