"""Move elements in a format that hardware can move, between casts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch.fx import Node

from mase_hw.formats import DEFAULT_FORMAT, Format, format_class
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import common, update
from mase_hw.graph.streams import stream_operands
from mase_hw.ops import Operator, operators
from mase_hw.passes.cast import insert_casts_transform_pass
from mase_hw.passes.quantize import observed_range


def bridge_formats_transform_pass(
    mg: MaseGraph, pass_args: Mapping[str, Any] | None = None
) -> tuple[MaseGraph, dict[str, Any]]:
    """Give operators that only move elements fixed point where they have no hardware for a format.

    Such an operator takes its producer's format and cannot be configured: a `flatten` behind a
    convolution in blocks, for instance. It moves as many bits as an element and its scale have,
    with a fraction fitted to the observed values; casts are inserted around it.

    Args:
        mg: a quantised graph.
        pass_args: none are known.

    Returns:
        The graph, and `{"bridged": names of the operators}`.
    """
    if not any(_takes(node) and not _moves(node, _operator(node)) for node in mg.nodes):
        return mg, {"bridged": []}
    mg = mg.copy()
    bridged = []
    for node in mg.nodes:
        if _takes(node):
            given = [
                common(producer).results["data_out_0"] for _, producer in stream_operands(node)
            ]
            formats = {spec.format for spec in given}
            operator = _operator(node)
            (number,) = formats if len(formats) == 1 else (None,)
            if number is None or number.name not in operator.formats:
                number = common(node).operands["data_in_0"].format
            assert number is not None
            if number.name not in operator.formats:
                number = _bridge(node, number)
                bridged.append(node.name)
            _set(node, number)
    mg, _ = insert_casts_transform_pass(mg, {})
    return mg, {"bridged": bridged}


def _takes(node: Node) -> bool:
    """Return whether a node takes its producer's format, which is known."""
    if node.op != "call_function" or common(node).operator is None:
        return False
    operator = _operator(node)
    known = all(spec.format is not None for spec in common(node).operands.values())
    return known and operator.keeps_format and not operator.casts and operator.role is None


def _operator(node: Node) -> Operator:
    return operators()[str(common(node).operator)]


def _moves(node: Node, operator: Operator) -> bool:
    return common(node).operands["data_in_0"].quantized.name in operator.formats


def _bridge(node: Node, number: Format) -> Format:
    bits = sum(item.width_bits for item in number.stream_fields(1))
    return format_class(DEFAULT_FORMAT).fit(*observed_range(node, "data_in_0"), width=bits)


def _set(node: Node, number: Format) -> None:
    known = common(node)
    operands = {name: spec.with_format(number) for name, spec in known.operands.items()}
    results = {name: spec.with_format(number) for name, spec in known.results.items()}
    update(node, common=replace(known, operands=operands, results=results))
