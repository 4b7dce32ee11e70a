"""Roundings that a model declares, and that number formats do not keep."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

from torch.fx import Node

from mase_hw.arithmetic.exact_formats import described, has_steps, holds, is_binary
from mase_hw.arithmetic.requantize import scales
from mase_hw.formats import Format
from mase_hw.graph.losses import loss_nodes
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import Rounding
from mase_hw.graph.nodes import (
    common,
    consumers,
    is_cast,
    keeps_format,
    location,
    metadata,
    operator_at,
    stream_operands,
    update,
)
from mase_hw.graph.rebuild import reached
from mase_hw.graph.rounded import is_rounding
from mase_hw.ops import Numeric

# Steps of what is approximated, of one step that it is rounded to.
FINER = 1 << 8
CURE = (
    "round it in the model to a format that its reader has hardware for, or select the reader in "
    "the configuration: its format then stands in place of the model's"
)


@dataclass(frozen=True)
class LostRounding:
    """A rounding that is not kept.

    Attributes:
        rounding: the rounding.
        node: that holds it, or the output where none does.
        reason: what stands in its place.
    """

    rounding: Rounding
    node: Node
    reason: str

    def __str__(self) -> str:
        number = described(self.rounding.number)
        return f"{self.rounding} rounds to {number}, {self.reason}; {CURE}"


def lost_roundings(mg: MaseGraph) -> Iterator[LostRounding]:
    """Yield the roundings of a model that a quantised graph does not compute.

    One is kept where a tensor has its very format, all that read the tensor read its values, and
    nothing has rounded before what the model does not. What a configuration selects is the user's.

    Args:
        mg: a quantised graph, before hardware is chosen.
    """
    losses, held = loss_nodes(mg), defaultdict[str, list[tuple[Node, Rounding]]](list)
    for node in mg.nodes:
        if node.op != "output":
            for rounding in metadata(node).roundings:
                held[rounding.name].append((node, rounding))
    for rounding in metadata(mg.fx_graph.output_node()).roundings:
        places = held[rounding.name]
        if not places:
            reason = "and no tensor of the graph is that any more"
            yield LostRounding(rounding, mg.fx_graph.output_node(), reason)
        for node, item in places:
            reason = _lost(node, item)
            if reason and node not in losses and not metadata(node).configured:
                yield LostRounding(item, node, reason)
                break


def note_replaced(mg: MaseGraph) -> None:
    """Note on the output, in place, which roundings the configuration has replaced."""
    output = mg.fx_graph.output_node()
    replaced = {
        item.name for node in mg.nodes if node.op == "call_function" for item in _replaced(node)
    }
    every = metadata(output).roundings
    update(output, roundings=tuple(replace(item, replaced=item.name in replaced) for item in every))


def _replaced(node: Node) -> Iterator[Rounding]:
    """Yield the roundings that a configured node reads or gives otherwise."""
    if not metadata(node).configured:
        return
    yield from (item for item in metadata(node).roundings if _lost(node, item))
    for _, producer in stream_operands(node):
        before = stream_operands(producer)[0][1] if is_cast(producer) else producer
        if before is not producer and not _is_exact(before, producer):
            yield from metadata(before).roundings


def _lost(node: Node, rounding: Rounding) -> str:
    """Reason why a rounding that a node holds is lost; empty where it is kept."""
    tensors = common(node)
    if rounding.tensor in tensors.operands:
        # Factors of a normalisation may have gone into its scales.
        wanted = metadata(node).declared.get(rounding.tensor, rounding.number)
        number = tensors.operands[rounding.tensor].format
        if number == wanted:
            return ""
        return f"and {rounding.tensor} of {_named(node)} is {described(number)}"
    number = tensors.results[rounding.tensor].format
    if number != rounding.number:
        return f"and {_named(node)} gives {described(number)}"
    if is_rounding(node):
        ((_, producer),) = stream_operands(node)
        if not _may_be_rounded(producer, rounding.number):
            first = common(producer).results["data_out_0"].format
            return f"and what it takes, {_named(producer)}, is rounded to {described(first)} first"
    return _read_otherwise(node, rounding.number) or _computed_otherwise(node)


def _read_otherwise(node: Node, number: Format) -> str:
    """Name the first reader of a tensor that takes other values; empty where none does."""
    for user, name in consumers(node):
        if is_cast(user) and not metadata(user).roundings and not _is_exact(node, user):
            readers = [item for item, _ in consumers(user) if not metadata(item).configured]
            if readers or any(item.op == "output" for item in user.users):
                reader = _named(readers[0]) if readers else "the output"
                other = common(user).results["data_out_0"].format
                return f"and {reader} takes it as {described(other)}"
        taken = common(user).operands[name].format
        if not is_cast(user) and taken != number:
            return f"and {_named(user)} takes it as {described(taken)}"
        if keeps_format(user) and common(user).results["data_out_0"].format == number:
            reason = _read_otherwise(user, number)
            if reason:
                return reason
    return ""


def _computed_otherwise(node: Node) -> str:
    """Name the first node between roundings that rounds by itself; empty where none does."""
    for item in reached(node, lambda item: filter(_is_between, _producers(item))):
        operator, result = operator_at(item), common(item).results["data_out_0"]
        loses = (
            item is not node
            and operator is not None
            and not keeps_format(item)
            and operator.role is None
            and result.dtype.startswith(("float", "bfloat"))
            and metadata(item).declared.get("data_out_0") != result.format
        )
        if loses and _comes_of_rounded(item) and not metadata(item).configured:
            return f"and {_named(item)} before it is rounded to {described(result.format)}"
    return ""


def _is_rounded(node: Node) -> bool:
    """True where the model rounds what a node gives, not its constants alone."""
    return any(item.tensor.startswith("data_out") for item in metadata(node).roundings)


def _is_between(node: Node) -> bool:
    return node.op == "call_function" and not _is_rounded(node)


def _comes_of_rounded(node: Node) -> bool:
    """True for a node that computes with rounded tensors of the model."""
    computed = reached(
        node,
        lambda item: _producers(item) if item is node or not metadata(item).roundings else (),
    )
    return any(metadata(item).roundings for item in computed if item is not node)


def _producers(node: Node) -> list[Node]:
    return [item for _, item in stream_operands(node)] if node.op == "call_function" else []


def _may_be_rounded(producer: Node, number: Format) -> bool:
    """True where nothing has rounded a tensor before a rounding of the model does.

    What the node gives is a rounding itself, or whole numbers, or approximates real numbers in much
    finer steps. What an input is given has its format.
    """
    if _is_rounded(producer) or producer.op == "placeholder":
        return True
    spec, operator = common(producer).results["data_out_0"], operator_at(producer)
    if operator is None:
        return False
    if is_cast(producer):
        return _may_be_rounded(stream_operands(producer)[0][1], number)
    if not spec.dtype.startswith(("float", "bfloat")):
        return True
    operands = common(producer).operands.values()
    if keeps_format(producer) and all(item.format == spec.format for item in operands):
        return all(_may_be_rounded(item, number) for _, item in stream_operands(producer))
    steps, declared = spec.format, metadata(producer).declared.get("data_out_0")
    if not Numeric.of(operator).approximates and declared != steps:
        return False
    if not is_binary(steps) or not has_steps(number):
        return False
    return scales(steps)[0] * FINER <= min(scales(number))


def _is_exact(node: Node, cast: Node) -> bool:
    number = common(node).results["data_out_0"].quantized
    return holds(common(cast).results["data_out_0"].quantized, number)


def _named(node: Node) -> str:
    return f"{node.name} ({location(node)})"
