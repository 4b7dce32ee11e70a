"""Predicted cycles of a design, from the schedules of its operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from torch.fx import Node

from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.reference import output_nodes, spec
from mase_hw.graph.streams import stream_operands
from mase_hw.hardware.memory import ExternalMemory, Place, deliver, external_memory
from mase_hw.ops import Call
from mase_hw.ops._base import Cycles

# Rounds in which late words and the words that are then taken late agree, or nearly so.
SETTLING = 8


@dataclass(frozen=True)
class Prediction:
    """Cycles of a design.

    Attributes:
        interval_cycles: cycles per inference in steady state: the work of the slowest node, the
            beats of the longest port, or the cycles of the memory port.
        latency_cycles: cycles from the first beat in to the last beat out, from idle, with inputs
            that are always there and outputs that are always taken. It includes the first words
            from an external memory.
        work_cycles: cycles that one inference occupies each node.
        memory: what lies outside the chip.
    """

    interval_cycles: int
    latency_cycles: int
    work_cycles: dict[str, int]
    memory: ExternalMemory | None = None


def predict(mg: MaseGraph) -> Prediction:
    """Return the prediction for a graph with parallelism."""
    calls = {node: mg.call(node) for node in mg.nodes if node.op == "call_function"}
    work = {node.name: spec(node).beats for node in mg.inputs}
    work |= {node.name: call.operator.work_cycles(call) for node, call in calls.items()}
    interval = max(work.values())
    offered = _offered(mg, calls, {})
    memory = external_memory(mg)
    if memory is not None:
        interval = max(interval, memory.cycles)
        offered = _settled(mg, calls, memory, offered)
    latency = max(int(offered[node][-1]) for node in output_nodes(mg))
    return Prediction(interval, latency, work, memory)


def _offered(
    mg: MaseGraph, calls: Mapping[Node, Call], words: Mapping[Place, Cycles]
) -> dict[Node, Cycles]:
    """Return when each result's beats are offered; `words` are what comes from outside."""
    offered = {node: np.arange(spec(node).beats) for node in mg.inputs}
    for node, call in calls.items():
        offered[node] = call.operator.schedule(call, _arrivals(node, offered, words))
    return offered


def _arrivals(
    node: Node, offered: Mapping[Node, Cycles], words: Mapping[Place, Cycles]
) -> dict[str, Cycles]:
    outside = {operand: item for (name, operand), item in words.items() if name == node.name}
    return {name: offered[producer] for name, producer in stream_operands(node)} | outside


def _settled(
    mg: MaseGraph, calls: Mapping[Node, Call], memory: ExternalMemory, offered: dict[Node, Cycles]
) -> dict[Node, Cycles]:
    """Return when results are offered beside a memory: words that come late are taken late."""
    places = {(item.node, item.operand) for item in memory.regions}
    users = [(node, call) for node, call in calls.items() if node.name in {n for n, _ in places}]
    words: dict[Place, Cycles] = {}
    for _ in range(SETTLING):
        taken = {}
        for node, call in users:
            used = call.operator.consumption(call, _arrivals(node, offered, words))
            taken |= {(node.name, name): used[name] for name in used if (node.name, name) in places}
        before, words = words, deliver(memory, taken)
        if before and all(np.array_equal(before[place], words[place]) for place in places):
            break
        offered = _offered(mg, calls, words)
    return offered
