"""Comparisons with thresholds take over what scales and shifts the sums before them.

`c s + d` reaches a limit where `s` reaches `(limit - d) / c`: a scale of weights, a bias, a product
and a sum with constants leave the graph, and exact sums of integers are compared with integers.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw.arithmetic.exact_formats import has_codes_around_zero, in_whole_steps
from mase_hw.arithmetic.requantize import scales
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import (
    constant_metadata,
    erase_node,
    free_name,
    metadata,
    operator_at,
    read_constant,
    stream_operands,
    tensor_arguments,
    update,
)
from mase_hw.ops import Call, Multiplying, Summing, Weighted
from mase_hw.passes.canonical.common_metadata import add_common_metadata_analysis_pass

ROLE = "thresholds"
# Dimensions of weights without channels of results behind them.
MATRIX = 2


def absorb_scales(mg: MaseGraph) -> MaseGraph:
    """Graph whose comparisons are of sums as they are, in place of scaled ones."""
    changed = False
    for node in [item for item in mg.nodes if (kind := operator_at(item)) and kind.role == ROLE]:
        while _absorb(mg, node):
            changed = True
    if not changed:
        return mg
    mg.fx_graph.eliminate_dead_code(lambda item: item.op in ("placeholder", "output"))
    mg.recompile()
    return add_common_metadata_analysis_pass(mg)[0]


def _absorb(mg: MaseGraph, node: Node) -> bool:
    """Let a comparison take over the node before it; true where it did."""
    ((_, producer),) = stream_operands(node)
    if operator_at(producer) is None or len(producer.users) > 1:
        return False
    if any(item.tensor == "data_out_0" for item in metadata(producer).roundings):
        return False
    call = mg.call(producer)
    constants = {name: item for name, item in call.constants.items() if name != "weight"}
    if isinstance(call.operator, Weighted) and "weight" in call.constants:
        return _absorb_layer(mg, node, producer, call)
    if len(constants) != 1 or [*call.streams] != ["data_in_0"]:
        return False
    (values,) = constants.values()
    values = values.double()
    if isinstance(call.operator, Multiplying) and bool((values != 0).all()):
        _set_bounds(mg, node, values, torch.zeros(()))
    elif (
        isinstance(call.operator, Summing) and call.result.shape == call.streams["data_in_0"].shape
    ):
        ((counts, divisor),) = call.operator.added(call)
        (name,) = constants
        if divisor != 1 or counts["data_in_0"] != 1:
            return False
        _set_bounds(mg, node, torch.ones(()), values * counts[name])
    else:
        return False
    node.replace_input_with(producer, stream_operands(producer)[0][1])
    erase_node(producer)
    return True


def _absorb_layer(mg: MaseGraph, node: Node, producer: Node, call: Call) -> bool:
    """Let a comparison take over the scales of a layer's weights, and its bias."""
    number, bias = metadata(producer).declared.get("weight"), call.constants.get("bias")
    if not has_codes_around_zero(number):
        return False
    if len(number.scales) == 1 and bias is None:
        return False
    axis, count = Weighted.of(call.operator).result_axis, len(number.scales)
    if count > 1 and (number.channel_axis or 0) != axis:
        return False
    rank = len(call.result.shape)
    # Channels of a layer are last, those of a convolution first.
    shape = [-1] if call.constants["weight"].dim() == MATRIX else [-1, *[1] * (rank - 2)]
    units = torch.tensor([float(item) for item in scales(number)], dtype=torch.float64)
    offsets = torch.zeros(1) if bias is None else bias
    _set_bounds(mg, node, units.reshape(shape), offsets.double().reshape(shape))
    weight = call.constants["weight"].double()
    along = [-1 if dim == axis else 1 for dim in range(weight.dim())]
    whole = (weight / units.reshape(along if count > 1 else [1] * weight.dim())).round()
    declared = dict(metadata(producer).declared)
    declared.pop("bias", None)
    declared["weight"] = in_whole_steps(number)
    arguments = dict(tensor_arguments(producer))
    item = arguments["weight"]
    assert isinstance(item, Node)
    producer.replace_input_with(item, _read(mg, producer, "weight_steps", whole.float()))
    if bias is not None:
        producer.args = tuple(None if arg is arguments["bias"] else arg for arg in producer.args)
    kept = metadata(producer).roundings
    own = tuple(item for item in kept if item.tensor != "bias")
    moved = [replace(item, tensor="bounds") for item in kept if item.tensor == "bias"]
    update(producer, declared=declared, roundings=own)
    update(node, roundings=(*metadata(node).roundings, *moved))
    return True


def _set_bounds(mg: MaseGraph, node: Node, factors: Tensor, offsets: Tensor) -> None:
    """Compare what becomes the operand by a factor and an offset."""
    bounds, signs = (mg.call(node).constants[name].double() for name in ("bounds", "signs"))
    limits = torch.nextafter(bounds, torch.tensor(torch.inf, dtype=torch.float64))
    limits = (limits - offsets.unsqueeze(-1)) / factors.unsqueeze(-1)
    below = torch.nextafter(limits, torch.tensor(-torch.inf, dtype=torch.float64))
    # Times a factor less than zero, what reaches the limit is not above it before.
    falling = (factors < 0).unsqueeze(-1)
    below = torch.where(falling, limits, below)
    signs = (signs * factors.sign()).broadcast_to(below.shape[:-1])
    arguments = dict(tensor_arguments(node))
    for name, values in (("bounds", below), ("signs", signs)):
        item = arguments[name]
        assert isinstance(item, Node)
        node.replace_input_with(item, _read(mg, node, name, values))


def _read(mg: MaseGraph, node: Node, name: str, values: Tensor) -> Node:
    target = free_name(node, f"{node.name}_{name}")
    return read_constant(mg.model, node, target, values.contiguous(), constant_metadata(node))
