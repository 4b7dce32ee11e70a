"""Predicted cycles of a design, from the motions of its cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from torch.fx import Node

from mase_hw.cells import Netlist
from mase_hw.geometry.beats import Cycles
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.reference import output_nodes, spec
from mase_hw.graph.streams import stream_operands
from mase_hw.hardware.memory import ExternalMemory, Place, deliver, external_memory

# Rounds in which late words and the words that are then taken late agree, or nearly so, and the
# cycles and beats that are replayed for that: the rounds of a long inference are fewer.
SETTLING_ROUNDS = 256
SETTLING_STEPS = 20_000_000


@dataclass(frozen=True)
class Prediction:
    """Cycles of a design.

    Attributes:
        interval_cycles: cycles per inference in steady state: the work of the slowest node, the
            beats of the longest port, or the cycles of the memory port.
        latency_cycles: cycles from the first beat in to the last beat out, from idle, with inputs
            that are always there and outputs that are always taken. It includes the first words
            from an external memory, whose port the next inference does not share yet.
        work_cycles: cycles that one inference occupies each node.
        memory: what lies outside the chip.
    """

    interval_cycles: int
    latency_cycles: int
    work_cycles: dict[str, int]
    memory: ExternalMemory | None = None


def predict(mg: MaseGraph) -> Prediction:
    """Return the prediction for a graph with parallelism."""
    netlists = {node: mg.netlist(node) for node in mg.nodes if node.op == "call_function"}
    work = {node.name: spec(node).beats for node in mg.inputs}
    work |= {node.name: netlist.busy_cycles for node, netlist in netlists.items()}
    interval = max(work.values())
    memory = external_memory(mg)
    if memory is not None:
        interval = max(interval, memory.cycles)
    return Prediction(interval, _latency(mg, netlists, memory, sum(work.values())), work, memory)


def _latency(
    mg: MaseGraph, netlists: Mapping[Node, Netlist], memory: ExternalMemory | None, cycles: int
) -> int:
    """Return the latency of an inference alone.

    Words that come late are taken late, and words that are taken late make room late: both are
    computed in turn until they agree.
    """
    words: dict[Place, Cycles] = {}
    offered = _offered(mg, netlists, words)
    taken: dict[Place, Cycles] = {}
    for _ in range(_settling_rounds(memory, cycles)):
        assert memory is not None
        taken = _taken(netlists, memory, offered, words)
        before, words = words, deliver(memory, taken)
        if before and all(np.array_equal(before[place], words[place]) for place in words):
            break
        offered = _offered(mg, netlists, words)
    first = _first_moved(mg, netlists, offered, words)
    return max(int(offered[node][-1]) for node in output_nodes(mg)) - first


def _settling_rounds(memory: ExternalMemory | None, cycles: int) -> int:
    if memory is None:
        return 0
    return max(2, min(SETTLING_ROUNDS, SETTLING_STEPS // (memory.beats + cycles)))


def _offered(
    mg: MaseGraph, netlists: Mapping[Node, Netlist], words: Mapping[Place, Cycles]
) -> dict[Node, Cycles]:
    """Return when each result's beats are offered; `words` are what comes from outside."""
    offered = {node: np.arange(spec(node).beats) for node in mg.inputs}
    for node, netlist in netlists.items():
        offered[node] = netlist.run(_arrivals(node, offered, words)).offered["data_out_0"]
    return offered


def _taken(
    netlists: Mapping[Node, Netlist],
    memory: ExternalMemory,
    offered: Mapping[Node, Cycles],
    words: Mapping[Place, Cycles],
) -> dict[Place, Cycles]:
    """Return when each operand of the nodes that read the memory is taken."""
    users = {region.node for region in memory.regions}
    taken: dict[Place, Cycles] = {}
    for node, netlist in netlists.items():
        if node.name in users:
            used = netlist.run(_arrivals(node, offered, words)).taken
            taken |= {(node.name, operand): cycles for operand, cycles in used.items()}
    return taken


def _arrivals(
    node: Node, offered: Mapping[Node, Cycles], words: Mapping[Place, Cycles]
) -> dict[str, Cycles]:
    outside = {operand: item for (name, operand), item in words.items() if name == node.name}
    return {name: offered[producer] for name, producer in stream_operands(node)} | outside


def _first_moved(
    mg: MaseGraph,
    netlists: Mapping[Node, Netlist],
    offered: Mapping[Node, Cycles],
    words: Mapping[Place, Cycles],
) -> int:
    """Return when the first input beat moves: an operator may send constants before it."""

    def taken(node: Node) -> int:
        ends = [0]
        for user in node.users:
            if user in netlists and netlists[user].is_wire:
                ends.append(taken(user))
            elif user in netlists:
                used = netlists[user].run(_arrivals(user, offered, words)).taken
                given = [name for name, producer in stream_operands(user) if producer is node]
                ends += [int(used[name][0]) for name in given]
        return max(ends)

    return min(taken(node) for node in mg.inputs)
