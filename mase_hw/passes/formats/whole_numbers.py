"""Number formats of what whole numbers are computed of: exact, whatever a configuration says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from torch.fx import Node

from mase_hw.arithmetic.fixed_point import bounds_of, is_whole, joined, whole_format
from mase_hw.formats import Format
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import common, metadata, stream_operands
from mase_hw.ops import Call, Exact, Numeric, TensorSpec, WholeNumbers

# Bits of an input that is no mask: examples do not show how large it may be.
INPUT_BITS = 16
# Of what software alone computes, and of labels that a model takes, too, as decoders do.
SOFTWARE_BITS = 32


def whole_formats(
    mg: MaseGraph, losses: Set[Node] = frozenset()
) -> Mapping[Node, Mapping[str, Format]]:
    """Formats of operands and result of every node that computes with whole numbers.

    An input of zeros and ones has two bits, any other `INPUT_BITS` at least; what follows has as
    many as its largest value takes, so that nothing is rounded and nothing overflows. What an
    operator chooses itself stays, and nodes behind other numbers are left out. What has no operator
    has no hardware: it and labels, which a loss reads, may be any numbers.

    Args:
        mg: a graph with common and software metadata.
        losses: nodes that have no format.
    """
    results: dict[Node, Format] = {}
    computed: dict[Node, Mapping[str, Format]] = {}
    for node in mg.nodes:
        tensors = metadata(node).common
        if node in losses or tensors is None or not tensors.results:
            continue
        if not _is_whole(tensors.results["data_out_0"]):
            continue
        low, high = _observed(node)
        if tensors.operator is None and (
            node.op != "placeholder" or not losses.isdisjoint(node.users)
        ):
            results[node] = whole_format(min(low, -1), high, SOFTWARE_BITS)
            if node.op == "placeholder":
                computed[node] = {"data_out_0": results[node]}
        elif node.op == "placeholder":
            results[node] = whole_format(low, high, INPUT_BITS if low < 0 or high > 1 else 0)
        elif node.op == "call_function":
            formats = _computed(mg.call(node), node, results)
            if len(formats) > 1:
                computed[node] = formats
            if "data_out_0" in formats:
                results[node] = formats["data_out_0"]
    return computed


def input_format(node: Node, wanted: Sequence[Format]) -> Format | None:
    """One format for all who read an input of whole numbers; None for any other input.

    Args:
        node: the input.
        wanted: the formats that those who read it ask for.
    """
    if len(set(wanted)) < 2 or not _is_whole(common(node).results["data_out_0"]):
        return None
    return joined(wanted, signed=_observed(node)[0] < 0)


def _computed(call: Call, node: Node, results: Mapping[Node, Format]) -> dict[str, Format]:
    """Formats of operands and result; of the result alone where others choose them."""
    operator = call.operator
    chosen = Numeric.of(operator).result_format(call)
    operands: dict[str, Format] = {
        name: whole_format(*bounds_of(value))
        for name, value in call.constants.items()
        if is_whole(value)
    }
    operands |= {name: results[item] for name, item in stream_operands(node) if item in results}
    operands |= {
        name: own
        for name in call.operands
        if (own := Numeric.of(operator).operand_format(call, name))
    }
    if operands.keys() == call.operands.keys():
        if isinstance(operator, WholeNumbers):
            result = chosen or Exact.of(operator).exact_result(call.with_formats(operands), 0)
            return {} if result is None else {**operands, "data_out_0": result}
        if Numeric.of(operator).shares_format:
            one = joined([*operands.values()], signed=True)
            return {} if one is None else dict.fromkeys((*operands, "data_out_0"), one)
        if Numeric.of(operator).keeps_format:
            return {"data_out_0": operands["data_in_0"]}
    return {} if chosen is None else {"data_out_0": chosen}


def _observed(node: Node) -> tuple[int, int]:
    software = metadata(node).software
    ends = None if software is None else software.ranges.get("data_out_0")
    return (0, 1) if ends is None else (int(ends.minimum), int(ends.maximum))


def _is_whole(spec: TensorSpec) -> bool:
    return spec.dtype.startswith(("int", "uint", "bool"))
