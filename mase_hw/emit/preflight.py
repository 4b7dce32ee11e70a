"""Everything that stands between a graph and hardware, named at once."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch.fx import Node

from mase_hw.errors import UnsupportedError
from mase_hw.formats import Format
from mase_hw.graph.fixed_batch import fixed_batch, has_batch_behind
from mase_hw.graph.loops import twins_of
from mase_hw.graph.losses import loss_nodes
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import common, location, metadata, stream_operands
from mase_hw.graph.rebuild import reached
from mase_hw.ops import (
    Configured,
    Numeric,
    Operator,
    not_carried,
    operator_for,
    operators,
    unformatted,
)
from mase_hw.passes.formats.bridge import bridge_formats_transform_pass
from mase_hw.passes.formats.expected_agreement import source_of
from mase_hw.passes.formats.losses import drop_losses_transform_pass
from mase_hw.passes.formats.lost_roundings import lost_roundings
from mase_hw.passes.hardware.parallelism import fuller_lanes

_ONLY_A_LOSS = (
    "it is a loss, one number for all rows of a batch, and the model returns nothing else: return "
    "what it is computed of, which has hardware, or reduce the dimensions behind the batch"
)


@dataclass(frozen=True)
class _Remark:
    """Something about a node.

    Attributes:
        node: name in the graph.
        module_path: torch module.
        source: the user's source line; the torch module where that is not known.
    """

    node: str
    module_path: str
    source: str

    def __str__(self) -> str:
        *_, text = vars(self).values()
        return f"{self.node} ({self.source}): {text}"


@dataclass(frozen=True)
class Problem(_Remark):
    """One reason why a node has no hardware, and the fix."""

    reason: str


@dataclass(frozen=True)
class Note(_Remark):
    """Something worth knowing of a node."""

    text: str


def place_of(node: Node) -> tuple[str, str, str]:
    """Return the name, torch module and source line of a node of the model, also for its casts."""
    node = source_of(node)
    return node.name, metadata(node).module_path, location(node)


def preflight(mg: MaseGraph) -> list[Problem]:
    """Return every problem of a quantised graph, in graph order; empty when there is none.

    Only causes are listed: a node that lacks its number format because the one before it is refused
    is not.
    """
    lost = [Problem(*place_of(item.node), str(item)) for item in lost_roundings(mg)]
    mg, _ = drop_losses_transform_pass(mg, {})
    mg, _ = bridge_formats_transform_pass(mg, {})
    losses = loss_nodes(mg)
    problems = [
        Problem(*place_of(node), _ONLY_A_LOSS)
        for node in dict.fromkeys(mg.outputs)
        if node in losses
    ]
    for node in mg.nodes:
        problems += [
            Problem(*place_of(node), reason)
            for reason in (_reasons(mg, node) if node not in losses else ())
        ]
    return problems or lost


def notes(mg: MaseGraph) -> list[Note]:
    """Notes on a quantised graph that has hardware."""
    remarks = batch_notes(mg)
    if mg.lengths.results is not None:
        text = (
            f"hardware takes sequences of {mg.lengths.size}, as captured: pad shorter ones, as "
            "the graph does in software, and mask what is padded"
        )
        remarks.append(Note(next(iter(mg.lengths.fills)), "", "the example inputs", text))
    mg, info = drop_losses_transform_pass(mg, {})
    mg, _ = bridge_formats_transform_pass(mg, {})
    calls = [
        (node, mg.call(node))
        for node in mg.nodes
        if node.op == "call_function" and operator_for(node.target)
    ]
    remarks += [
        Note(*place_of(node), text)
        for node, call in calls
        for text in Configured.of(call.operator).notes(call)
    ]
    without = [(name, "is a loss, which stays in software") for name in info["dropped"]]
    without += [
        (name, "is a constant")
        for name, leaf in mg.returned()
        if isinstance(leaf, Node) and leaf.op == "get_attr"
    ]
    return remarks + [
        Note("output", "", "the model's code", f"result {name} {why}: it has no port")
        for name, why in without
    ]


def batch_notes(mg: MaseGraph) -> list[Note]:
    """Notes on batches of example inputs that become part of one inference."""
    return [Note(*place_of(node), text) for node, text in fixed_batch(mg)]


def idle_notes(mg: MaseGraph) -> list[Note]:
    """Notes on layers of a graph of hardware whose multipliers mostly wait, with better lanes."""
    twins, remarks = twins_of(mg), []
    for node in mg.nodes:
        if node.op == "call_function" and twins.get(node, (node,))[0] is node:
            fuller, hardware = fuller_lanes(mg, node), metadata(node).hardware
            if fuller is not None and hardware is not None:
                best, table = fuller
                entries = ", ".join(f"{key} = {value}" for key, value in table.items())
                text = (
                    f"less than half of its {hardware.multipliers} multipliers work at a time, for "
                    f"{hardware.work_cycles:,} cycles; [parallelism.{node.name}] {entries} takes "
                    f"{best.work_cycles:,} cycles with {best.multipliers}"
                )
                remarks.append(Note(*place_of(node), text))
    return remarks


def check(mg: MaseGraph) -> None:
    """Raise one error that lists every problem.

    Raises:
        UnsupportedError: when there is any.
    """
    problems = preflight(mg)
    if problems:
        lines = "\n".join(f"  {problem}" for problem in problems)
        plural = "s" if len(problems) > 1 else ""
        raise UnsupportedError(f"{mg.name} has {len(problems)} problem{plural}:\n{lines}")


def _reasons(mg: MaseGraph, node: Node) -> list[str]:
    if node.op == "placeholder":
        return _input_reasons(mg, node)
    if node.op == "output":
        return _output_reasons(mg)
    # What has several results is named itself.
    if node.op != "call_function" or node.target is operator.getitem:
        return []
    if operator_for(node.target) is None:
        return [f"{node.target} has no hardware: {_way_out(node)}"]
    try:
        call = mg.call(node)
    except UnsupportedError as error:
        return [str(error)]
    followed = unformatted(call) if _follows(mg, node) else []
    reasons = [reason for reason in call.operator.problems(call) if reason not in followed]
    if reasons and (why := not_carried(call)):
        reasons[0] += f"; {why}"
    return reasons


def _input_reasons(mg: MaseGraph, node: Node) -> list[str]:
    if not node.users:
        return ["this input is not used: leave it out of the example inputs, or of the model"]
    if _format(node) is None and not _is_refused_below(mg, node):
        return ["no number format is configured for what takes this input: give a default"]
    if has_batch_behind(mg, node):
        return [
            "its dimension 0 is cut, and its batch is dimension 1, as that of states of torch's "
            "recurrent layers is: take it with the batch first and transpose(0, 1) it in forward, "
            "and what comes of it back"
        ]
    return []


def _output_reasons(mg: MaseGraph) -> list[str]:
    """Return why what the model returns cannot be ports; None is left out of them.

    So is a constant beside what is computed, such as the size of a cache.
    """
    reasons = []
    for name, leaf in mg.returned():
        if isinstance(leaf, Node) and leaf.op == "get_attr":
            if all(item.op == "get_attr" for item in mg.outputs):
                reasons.append(
                    f"result {name} is a constant ({leaf.target}): return what depends on an input"
                )
        elif leaf is not None and not isinstance(leaf, Node):
            reasons.append(
                f"result {name} is the {type(leaf).__name__} {leaf!r}: return tensors only"
            )
    if not reasons and not mg.outputs:
        reasons.append("the model returns no tensor; return what it computes")
    return reasons


def _format(node: Node) -> Format | None:
    result = common(node).results.get("data_out_0")
    return result.format if result else None


def _operator(node: Node) -> Operator | None:
    name = common(node).operator
    return operators()[name] if name is not None else None


def _takes_formats(node: Node) -> bool:
    kind = _operator(node)
    return kind is not None and (Numeric.of(kind).keeps_format or not kind.casts)


def _follows(mg: MaseGraph, node: Node) -> bool:
    """True if a node is without format because another one is, which says so itself."""
    kind = _operator(node)
    if kind is None or not _takes_formats(node):
        return False
    if any(_is_refused_above(producer) for producer in _unformatted_producers(node)):
        return True
    return not kind.casts or _is_refused_below(mg, node)


def _unformatted_producers(node: Node) -> list[Node]:
    return [producer for _, producer in stream_operands(node) if _format(producer) is None]


def _is_refused_above(node: Node) -> bool:
    """True if a node has no format because of a node above it, or itself, that says so."""
    above = reached(node, _unformatted_producers)
    return any(item.op != "placeholder" and not _takes_formats(item) for item in above)


def _is_refused_below(mg: MaseGraph, node: Node) -> bool:
    """True if the nodes that could ask for a node's format say that they have none."""

    def is_refused(user: Node) -> bool:
        kind = _operator(user)
        asks = kind is not None and kind.casts and _takes_formats(user)
        return asks or bool(_reasons(mg, user))

    below = reached(node, lambda item: [user for user in item.users if user.op == "call_function"])
    return any(user is not node and is_refused(user) for user in below)


def _way_out(node: Node) -> str:
    """Advice for a node that no operator covers."""
    if not _reaches(node, lambda item: item.users):
        fix = "return what goes into it and compute it outside"
    elif not _reaches(node, lambda item: item.all_input_nodes):
        fix = "compute it outside and make its result an input of the model"
    else:
        fix = "cut the model in two there and compute it in between"
    if torch.Tag.dynamic_output_shape in getattr(node.target, "tags", ()):
        return f"the size of its result depends on the data; {fix}"
    return f"{fix}, or add an operator (README)"


def _reaches(node: Node, neighbours: Callable[[Node], Iterable[Node]]) -> bool:
    """True if an operator that computes lies on a way from a node."""
    near = reached(node, neighbours)
    kinds = (_operator(item) for item in near if item.op == "call_function")
    return any(item is not None and item.casts for item in kinds)
