"""How torch itself spells a rounding to integers with a scale, as the one operator that we have.

Exported quantised programs (pt2e) hold a quantiser and its inverse, with integers between; modules
of `torch.ao.quantization` hold both as one operator, some with an observer that is off.
"""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node

from mase_hw.errors import CaptureError
from mase_hw.graph._rewriter import Rewriter, Rule
from mase_hw.graph.nodes import aten_arguments
from mase_hw.graph.rebuild import get_tensor
from mase_hw.graph.source import location_of_trace
from mase_hw.importers.torch_ao import RANGES
from mase_hw.ops import operators

Levels = tuple[list[float], list[int], int, int, int]


def spell_roundings(module: GraphModule) -> None:
    """Put our operator in the place of every rounding that torch spells, in place.

    Raises:
        CaptureError: for a scale or zero point that the model computes, naming the user's line.
    """
    operators()  # Registers our own.
    if Rewriter(module).run({}, _spelled):
        module.graph.eliminate_dead_code(
            is_impure_node=lambda node: node.op in ("placeholder", "output")
        )


def _spelled(rewriter: Rewriter, node: Node) -> Node | None:
    rule = _RULES.get(_name(node))
    return None if rule is None else rule(rewriter, node)


def _name(node: Node) -> str:
    text = str(node.target)
    return text if text.startswith("aten.") else text.rpartition(".")[0]


def _rounded(rewriter: Rewriter, values: Node, levels: Levels) -> Node:
    return rewriter.call(torch.ops.mase.fake_quantize.default, values, *levels)


def _levels(rewriter: Rewriter, node: Node, axis: str = "axis") -> Levels:
    arguments = {
        key.replace("scales", "scale").replace("zero_points", "zero_point"): value
        for key, value in aten_arguments(node).items()
    }
    scales, points = (
        _numbers(rewriter.module, node, arguments[key]) for key in ("scale", "zero_point")
    )
    points = points * len(scales) if len(points) == 1 else points
    place = int(arguments.get(axis, 0)) if len(scales) > 1 else 0
    ends = (
        (int(arguments["quant_min"]), int(arguments["quant_max"]))
        if "quant_min" in arguments
        else RANGES[arguments["dtype"]]
    )
    return scales, [round(item) for item in points], place, *ends


def _numbers(module: GraphModule, node: Node, given: object) -> list[float]:
    if isinstance(given, int | float):
        return [float(given)]
    if isinstance(given, Node) and given.op == "get_attr":
        return [float(item) for item in get_tensor(module, given.target).reshape(-1)]
    where = location_of_trace(node.stack_trace)
    raise CaptureError(
        f"a scale or a zero point is computed by the model at {where}; allowed are constants: "
        "freeze them, or quantise statically"
    )


def _real(rewriter: Rewriter, node: Node) -> Node:
    """Round reals; integers of a quantiser are held as the reals for which they stand."""
    arguments = aten_arguments(node)
    values = arguments["self" if "self" in arguments else "input"]
    return _rounded(rewriter, values, _levels(rewriter, node))


def _inverse(rewriter: Rewriter, node: Node) -> Node:
    """Take the reals as they are; those of constant integers are computed here."""
    codes, levels = aten_arguments(node)["input"], _levels(rewriter, node)
    if codes.op != "get_attr":
        if not _stands_for(codes, levels):
            raise CaptureError(
                "integers are read in another scale than they were made in, at "
                f"{location_of_trace(node.stack_trace)}"
            )
        return codes  # type: ignore[no-any-return]
    scales, points, place, _, _ = levels
    array = get_tensor(rewriter.module, codes.target)
    shape = [-1 if dim == place and len(scales) > 1 else 1 for dim in range(array.dim())]
    steps = array.double() - torch.tensor(points, dtype=torch.float64).reshape(shape)
    reals = (steps * torch.tensor(scales, dtype=torch.float64).reshape(shape)).float()
    return _rounded(rewriter, rewriter.constant(f"{codes.name}_reals", reals), levels)


def _reals(rewriter: Rewriter, node: Node) -> Node:
    """Take a tensor of integers that knows its scale as the reals that it holds here."""
    values: Node = aten_arguments(node)["self"]
    return values


def _stands_for(node: Node, levels: Levels) -> bool:
    """True if codes come from a rounding to the same levels, behind what moves them."""
    while node.target is not torch.ops.mase.fake_quantize.default:
        if node.op != "call_function" or len(node.all_input_nodes) != 1:
            return False
        (node,) = node.all_input_nodes
    return list(node.args[1:6]) == list(levels)


def _observing(rewriter: Rewriter, node: Node) -> Node:
    """Round reals to reals, where the observer is off; else the model is still being calibrated."""
    arguments = aten_arguments(node)
    rounds, observes = (
        bool(_numbers(rewriter.module, node, arguments[name])[0])
        for name in ("fake_quant_on", "observer_on")
    )
    if observes:
        raise CaptureError(
            "a fake quantiser still observes its inputs, at "
            f"{location_of_trace(node.stack_trace)}; torch.ao.quantization.disable_observer first"
        )
    axis = "ch_axis" if arguments["per_row_fake_quant"] else ""
    values: Node = arguments["self"]
    return _rounded(rewriter, values, _levels(rewriter, node, axis)) if rounds else values


_SPACE = "quantized_decomposed"
_RULES: dict[str, Rule] = {
    f"{_SPACE}.quantize_per_tensor": _real,
    f"{_SPACE}.quantize_per_channel": _real,
    f"{_SPACE}.dequantize_per_tensor": _inverse,
    f"{_SPACE}.dequantize_per_channel": _inverse,
    "aten.quantize_per_tensor.default": _real,
    "aten.quantize_per_tensor.tensor_qparams": _real,
    "aten.quantize_per_channel.default": _real,
    "aten.dequantize.self": _reals,
    "aten.fake_quantize_per_tensor_affine.default": _real,
    "aten.fake_quantize_per_tensor_affine.tensor_qparams": _real,
    "aten.fake_quantize_per_channel_affine.default": _real,
    "aten.fused_moving_avg_obs_fake_quant.default": _observing,
}
