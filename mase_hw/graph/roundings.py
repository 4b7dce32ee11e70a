"""How torch itself spells a rounding to integers with a scale, as the one operator that we have.

Exported quantised programs (pt2e) hold a quantiser and its inverse, with integers between; modules
of `torch.ao.quantization` hold both as one operator, some with an observer that is off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from mase_hw.errors import CaptureError
from mase_hw.graph.calls import aten_arguments
from mase_hw.graph.rebuild import get_tensor, set_tensor
from mase_hw.graph.source import location_of_trace
from mase_hw.ops import operators

Levels = tuple[list[float], list[int], int, int, int]


def spell_roundings(module: GraphModule) -> None:
    """Put our operator in the place of every rounding that torch spells, in place.

    Raises:
        CaptureError: for a scale or zero point that the model computes, naming the user's line.
    """
    found = [node for node in module.graph.nodes if _name(node) in _KNOWN]
    if not found:
        return
    operators()  # Registers our own.
    for node in found:
        _KNOWN[_name(node)](module, node)
    module.graph.eliminate_dead_code(
        is_impure_node=lambda node: node.op in ("placeholder", "output")
    )


def _name(node: Node) -> str:
    if node.op != "call_function":
        return ""
    text = str(node.target)
    return text if text.startswith("aten.") else text.rpartition(".")[0]


def _rounded(module: GraphModule, node: Node, values: Node, levels: Levels) -> None:
    """Replace a node by a rounding of values."""
    scales, points, axis, low, high = levels
    target: Any = torch.ops.mase.fake_quantize.default
    with module.graph.inserting_before(node):
        made = module.graph.call_function(target, (values, scales, points, axis, low, high))
    made.meta = {key: item for key, item in node.meta.items() if key != "val"}
    value = node.meta.get("val")
    if isinstance(value, Tensor):
        made.meta["val"] = value.to(torch.float32) if not value.is_floating_point() else value
    node.replace_all_uses_with(made)


def _levels(module: GraphModule, node: Node, axis: str | None = None) -> Levels:
    given = aten_arguments(node)
    names = {
        key.replace("scales", "scale").replace("zero_points", "zero_point"): key for key in given
    }
    scales = _numbers(module, node, given[names["scale"]])
    points = [round(item) for item in _numbers(module, node, given[names["zero_point"]])]
    points = points * len(scales) if len(points) == 1 else points
    place = 0 if axis is None or len(scales) == 1 else int(given[axis])
    return scales, points, place, int(given["quant_min"]), int(given["quant_max"])


def _numbers(module: GraphModule, node: Node, given: object) -> list[float]:
    if isinstance(given, int | float):
        return [float(given)]
    if isinstance(given, Node) and given.op == "get_attr":
        found = [float(item) for item in get_tensor(module, given.target).reshape(-1)]
        return found
    where = location_of_trace(node.stack_trace)
    raise CaptureError(
        f"a scale or a zero point is computed by the model at {where}; allowed are constants: "
        "freeze them, or quantise statically"
    )


def _quantizer(module: GraphModule, node: Node) -> None:
    """Round reals; the integers are held as the reals for which they stand."""
    axis = "axis" if "axis" in aten_arguments(node) else None
    values = aten_arguments(node)["input"]
    _rounded(module, node, values, _levels(module, node, axis))


def _inverse(module: GraphModule, node: Node) -> None:
    """Take the reals as they are; those of constant integers are computed here."""
    given = aten_arguments(node)
    codes = given["input"]
    axis = "axis" if "axis" in given else None
    levels = _levels(module, node, axis)
    if codes.op != "get_attr":
        if not _stands_for(codes, levels):
            raise CaptureError(
                "integers are read in another scale than they were made in, at "
                f"{location_of_trace(node.stack_trace)}"
            )
        node.replace_all_uses_with(codes)
        return
    scales, points, place, _, _ = levels
    array = get_tensor(module, codes.target)
    shape = [1] * array.dim()
    if len(scales) > 1:
        shape[place] = -1
    steps = array.double() - torch.tensor(points, dtype=torch.float64).reshape(shape)
    reals = (steps * torch.tensor(scales, dtype=torch.float64).reshape(shape)).float()
    name = f"{codes.name}_reals"
    set_tensor(module, name, reals)
    with module.graph.inserting_before(node):
        read = module.graph.get_attr(name)
    read.meta = {key: item for key, item in codes.meta.items() if key != "val"}
    _rounded(module, node, read, levels)


def _stands_for(node: Node, levels: Levels) -> bool:
    """True if codes come from a rounding to the same levels, behind what moves them."""
    while node.target is not torch.ops.mase.fake_quantize.default:
        if node.op != "call_function" or len(node.all_input_nodes) != 1:
            return False
        (node,) = node.all_input_nodes
    return list(node.args[1:6]) == list(levels)


def _both(module: GraphModule, node: Node) -> None:
    given = aten_arguments(node)
    axis = "axis" if "axis" in given else None
    _rounded(module, node, given["self"], _levels(module, node, axis))


def _observing(module: GraphModule, node: Node) -> None:
    """Round reals to reals, where the observer is off; else the model is still being calibrated."""
    given = aten_arguments(node)
    rounds, observes = (
        bool(_numbers(module, node, given[name])[0]) for name in ("fake_quant_on", "observer_on")
    )
    if observes:
        raise CaptureError(
            "a fake quantiser still observes its inputs, at "
            f"{location_of_trace(node.stack_trace)}; torch.ao.quantization.disable_observer first"
        )
    if not rounds:
        node.replace_all_uses_with(given["self"])
        return
    axis = "ch_axis" if given["per_row_fake_quant"] else None
    _rounded(module, node, given["self"], _levels(module, node, axis))


_SPACE = "quantized_decomposed"
_KNOWN: dict[str, Callable[[GraphModule, Node], None]] = {
    f"{_SPACE}.quantize_per_tensor": _quantizer,
    f"{_SPACE}.quantize_per_channel": _quantizer,
    f"{_SPACE}.dequantize_per_tensor": _inverse,
    f"{_SPACE}.dequantize_per_channel": _inverse,
    "aten.fake_quantize_per_tensor_affine.default": _both,
    "aten.fake_quantize_per_tensor_affine.tensor_qparams": _both,
    "aten.fake_quantize_per_channel_affine.default": _both,
    "aten.fused_moving_avg_obs_fake_quant.default": _observing,
}
