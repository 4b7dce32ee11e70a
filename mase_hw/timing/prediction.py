"""Predicted cycles of a design, from the motions of its cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from torch.fx import Node

from mase_hw.cells import Netlist
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.physical import PhysicalGraph, physical
from mase_hw.graph.reference import output_nodes, spec
from mase_hw.timing.asap import Asap
from mase_hw.timing.back_pressure import MOST_LOOP_TIMES, Network
from mase_hw.timing.loops import LoopSchedule
from mase_hw.timing.memory import ExternalMemory, Region, external_memory
from mase_hw.timing.times import MOST_BEATS, SampledTimes

# Rounds in which late words and the words that are then consumed late agree, or nearly so, and the
# cycles and beats that are replayed for that: the rounds of a long inference are fewer.
SETTLING_ROUNDS = 192
SETTLING_STEPS = 20_000_000
# Of layers on the same hardware a step takes longer: each layer waits for the one before.
LOOP_STEP = 4
# Inferences after which loops run at a steady pace.
LOOP_INFERENCES = 3
# Inferences for which buffers of words from outside fill, at most.
MOST_FILLING = 12


@dataclass(frozen=True)
class Prediction:
    """Cycles of a design.

    Attributes:
        interval_cycles: cycles per inference in steady state: the work of the slowest node, the
            beats of the longest port, or the cycles of the memory port.
        latency_cycles: cycles from the first beat in to the last beat out, from idle, with inputs
            that are always there and outputs that are always ready. It includes the first words
            from an external memory, whose port the next inference does not share yet.
        work_cycles: cycles that one inference occupies each node.
        memory: what lies outside the chip.
        sketched: whether the latency is not known to the cycle. Of too many beats it is that of
            some of each tensor: consumers count as always ready, and words from outside come
            evenly. Otherwise words from outside and what waits for them did not agree in time.
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
    work = {node.name: spec(node).beats * mg.rounds(node) for node in mg.inputs}
    work |= {node.name: item.busy_cycles * mg.rounds(node) for node, item in netlists.items()}
    interval = max(work.values())
    memory = external_memory(mg)
    if memory is not None:
        interval = max(interval, memory.cycles)
    if isinstance(mg, PhysicalGraph):
        latency, pace, sampled = _of_loops(mg, netlists, memory, sum(work.values()))
        return Prediction(max(interval, pace), latency, work, memory, sampled)
    if sum(netlist.beats for netlist in netlists.values()) > MOST_BEATS:
        latency, _ = _sampled(mg, netlists, memory)
        return Prediction(interval, latency, work, memory, True)
    latency, settled = _latency(mg, netlists, memory, sum(work.values()))
    return Prediction(interval, latency, work, memory, not settled)


def _of_loops(
    mg: PhysicalGraph,
    netlists: Mapping[Node, Netlist],
    memory: ExternalMemory | None,
    cycles: int,
) -> tuple[int, int, bool]:
    """Return latency and interval of a design with loops, and whether they are sampled.

    An inference enters a loop when the one before has entered its last iteration, so that the
    interval follows from how long activations go round.
    """
    # Until buffers of words are full the port is busy with them; behind the last inference it is
    # not any more.
    filling = max(map(_ahead, memory.regions), default=0) + 1 if memory else 0
    inferences = LOOP_INFERENCES + 2 * filling
    iterations = max(mg.sharing.counts.values()) * inferences
    beats = sum(netlist.beats * mg.rounds(node) for node, netlist in netlists.items())
    known = beats * inferences * iterations // 2 <= MOST_LOOP_TIMES
    if known and filling <= MOST_FILLING:
        network = _network(mg, netlists, memory, inferences)
        if _settles(network, memory, LOOP_STEP * cycles * inferences):
            ends = np.stack(
                [network.offered(node).reshape(inferences, -1)[:, -1] for node in mg.outputs]
            ).max(axis=0)
            first = min(max(0, int(network.departed(node)[0])) for node in mg.inputs)
            paces = np.diff(ends)[filling + 1 : inferences - filling]
            return int(ends[0]) - first, int(paces.max()), bool(np.ptp(paces))
    return *_sampled(mg, netlists, memory), True


def _ahead(region: Region) -> int:
    """Return how many inferences before its own a word may be fetched."""
    return -(-region.buffer_beats // (region.rounds * region.beats))


def _sampled(
    mg: MaseGraph, netlists: Mapping[Node, Netlist], memory: ExternalMemory | None
) -> tuple[int, int]:
    """Return latency and interval of an inference alone, from the as-soon-as-possible schedule."""
    times = SampledTimes(netlists, steps=_steps_outside(memory) if memory else None)
    loops = LoopSchedule.all_of(mg, times)
    asap = Asap(mg, times, loops, {})
    offered = asap.offered()
    first = memory.port.latency_cycles if memory else 0
    latency = first + max(int(offered[node][-1]) for node in output_nodes(mg))
    return latency, max((loop.count * loop.pace(offered) for loop in loops), default=1)


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
) -> tuple[int, bool]:
    """Return the latency of an inference alone, and whether it is known to the cycle."""
    network = _network(mg, netlists, memory, 1)
    settled = _settles(network, memory, cycles)
    # An operator may send constants before the first beat.
    first = min(max(0, int(network.departed(node)[0])) for node in mg.inputs)
    return max(int(network.offered(node)[-1]) for node in output_nodes(mg)) - first, settled


def _network(
    mg: MaseGraph,
    netlists: Mapping[Node, Netlist],
    memory: ExternalMemory | None,
    inferences: int,
) -> Network:
    regions = memory.regions if memory else ()
    return Network(mg, netlists, [(item.node, item.operand) for item in regions], inferences)


def _settles(network: Network, memory: ExternalMemory | None, cycles: int) -> bool:
    if memory is None:
        return network.run({})
    rounds = min(SETTLING_ROUNDS, SETTLING_STEPS // (memory.beats + cycles))
    return network.agree(memory, max(2, rounds))
