"""Predicted cycles of a design, from the motions of its cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from torch.fx import Node

from mase_hw.cells import MOVES, Curve, Netlist
from mase_hw.geometry.beats import Cycles
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.physical import PhysicalGraph, physical
from mase_hw.graph.reference import output_nodes, spec
from mase_hw.graph.streams import stream_operands
from mase_hw.timing.back_pressure import LAP_MOVES, Network
from mase_hw.timing.memory import ExternalMemory, Place, deliver, external_memory
from mase_hw.timing.sketched_loops import sketched_laps

# Rounds in which late words and the words that are then taken late agree, or nearly so, and the
# cycles and beats that are replayed for that: the rounds of a long inference are fewer.
SETTLING_ROUNDS = 256
SETTLING_STEPS = 20_000_000
# Inferences after which layers that run on the same hardware take turns at a steady pace.
LAP_INFERENCES = 3


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
        sketched: whether the latency is that of some beats of each tensor, because there are too
            many: consumers count as always ready, and words from outside come evenly.
    """

    interval_cycles: int
    latency_cycles: int
    work_cycles: dict[str, int]
    memory: ExternalMemory | None = None
    sketched: bool = False


def predict(mg: MaseGraph) -> Prediction:
    """Return the prediction for a graph with parallelism."""
    mg = physical(mg)
    netlists = {node: mg.netlist(node) for node in mg.nodes if node.op == "call_function"}
    work = {node.name: spec(node).beats for node in mg.inputs}
    work |= {node.name: netlist.busy_cycles for node, netlist in netlists.items()}
    if isinstance(mg, PhysicalGraph):
        return _in_laps(mg, netlists, work)
    interval = max(work.values())
    memory = external_memory(mg)
    if memory is not None:
        interval = max(interval, memory.cycles)
    if sum(netlist.moves for netlist in netlists.values()) > MOVES:
        return Prediction(interval, _sketched(mg, netlists, memory), work, memory, True)
    return Prediction(interval, _latency(mg, netlists, memory, sum(work.values())), work, memory)


def _in_laps(
    mg: PhysicalGraph, netlists: Mapping[Node, Netlist], work: Mapping[str, int]
) -> Prediction:
    """Return the prediction of a design in which layers run on the same hardware.

    An inference enters it when the one before has entered its last layer, so that the interval
    follows from how long activations go round.
    """
    work = {node.name: work[node.name] * mg.rounds(node) for node in (*mg.inputs, *netlists)}
    slowest = max(work.values())
    rounds = max(mg.turns.counts.values()) * LAP_INFERENCES
    moves = sum(netlist.moves * mg.rounds(node) for node, netlist in netlists.items())
    if moves * LAP_INFERENCES * rounds // 2 <= LAP_MOVES:
        network = Network(mg, netlists, (), LAP_INFERENCES)
        if network.go_round():
            ends = np.stack(
                [network.offered(node).reshape(LAP_INFERENCES, -1)[:, -1] for node in mg.outputs]
            ).max(axis=0)
            first = min(max(0, int(network.gone(node)[0])) for node in mg.inputs)
            interval = max(slowest, int(ends[-1] - ends[-2]))
            return Prediction(interval, int(ends[0]) - first, work)
    latency, interval = sketched_laps(mg, netlists)
    return Prediction(max(slowest, interval), latency, work, None, True)


def _sketched(
    mg: MaseGraph, netlists: Mapping[Node, Netlist], memory: ExternalMemory | None
) -> int:
    """Return the latency of an inference alone, from some beats of each tensor."""
    steps = _steps_outside(memory) if memory else {}
    curves: dict[Node, Curve] = {}
    for node in mg.nodes:
        if node.op == "placeholder":
            curves[node] = Curve.even(spec(node).beats, spec(node).beats, 1)
        elif node in netlists:
            arrivals = {name: curves[producer] for name, producer in stream_operands(node)}
            curves[node] = netlists[node].sketch(arrivals, None, steps.get(node.name)).offered
    first = memory.port.latency_cycles if memory else 0
    return first + max(int(curves[node].times[-1]) for node in output_nodes(mg))


def _steps_outside(memory: ExternalMemory) -> dict[str, dict[str, float]]:
    """Return, by node and operand, the cycles between words when all sources share the port.

    Each source gets as many bursts as each other, until it needs no more.
    """
    sources, cycles = len(memory.regions), memory.cycles / max(1, memory.beats)
    found: dict[str, dict[str, float]] = {}
    for item in memory.regions:
        beats = item.rounds * item.beats
        busy = min(memory.cycles, sources * beats * cycles)
        steps = found.setdefault(item.node, {})
        steps[item.operand] = max(1.0, busy / (item.rounds * item.repeats * item.words))
    return found


def _latency(
    mg: MaseGraph, netlists: Mapping[Node, Netlist], memory: ExternalMemory | None, cycles: int
) -> int:
    """Return the latency of an inference alone.

    Words that come late are taken late, and words that are taken late make room late: both are
    computed in turn until they agree.
    """
    regions = memory.regions if memory else ()
    network = Network(mg, netlists, [(item.node, item.operand) for item in regions])
    words: dict[Place, Cycles] = {}
    network.run(words)
    for _ in range(_settling_rounds(memory, cycles)):
        assert memory is not None
        before, words = words, deliver(memory, network.read())
        if before and all(np.array_equal(before[place], words[place]) for place in words):
            break
        network.run(words)
    # An operator may send constants before the first beat.
    first = min(max(0, int(network.gone(node)[0])) for node in mg.inputs)
    return max(int(network.offered(node)[-1]) for node in output_nodes(mg)) - first


def _settling_rounds(memory: ExternalMemory | None, cycles: int) -> int:
    if memory is None:
        return 0
    return max(2, min(SETTLING_ROUNDS, SETTLING_STEPS // (memory.beats + cycles)))
