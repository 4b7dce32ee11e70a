"""Deadlock check: the beats of an inference can move in some order.

A beat that is consumed is an event. It waits for the beats that it is made of, for the beat before
it, which every consumer of a fork must have, and for the result that makes room for it. A design
can deadlock exactly when these waits form a circuit (Commoner, Holt, Even and Pnueli, "Marked
Directed Graphs", 1971). No circuit lies across inferences, because only room is waited for across
them, and room is made by earlier ones: one inference tells.

What results need, and how far a node runs ahead of them, its cells say (`order.py`). That is the
room which is there whatever the timing: pipelines that move as one hold a few beats more when beats
come close together, and no design may live by that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from torch.fx import Node

from mase_hw.cells import Netlist
from mase_hw.cells.stream_fifo import StreamFifo
from mase_hw.errors import EmissionError, MaseError
from mase_hw.geometry.beats import Cycles
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import location, metadata, stream_operands
from mase_hw.graph.physical import PhysicalGraph, physical
from mase_hw.graph.reference import output_nodes, spec
from mase_hw.timing import order
from mase_hw.timing.curve import sampled
from mase_hw.timing.waits import Waits

# Beats between nodes of which all are ordered; of more, the sampled ones of each tensor.
MOST_EVENTS = 1_000_000

Use = tuple[Node, str]
Places = Callable[[int], Cycles]


def check_progress(mg: MaseGraph) -> tuple[int, bool]:
    """Refuse a design that would deadlock, naming the loop.

    Args:
        mg: a graph that went through the hardware metadata pass.

    Returns:
        The number of moves that were ordered, none without a fork, and whether these are of sampled
        beats.

    Raises:
        EmissionError: when beats wait for each other.
    """
    mg = physical(mg)
    if not _forks(mg):
        return 0, False
    units = _units(mg)
    if all(len(unit.uses) < 2 for unit in units.values()):
        return 0, False
    large = sum(unit.beats * (1 + len(unit.uses)) for unit in units.values()) > MOST_EVENTS
    _add_waits(units, sampled if large else np.arange)
    waits = _waits(units)
    circuit = waits.circuit()
    if circuit:
        raise EmissionError(_message(units, [waits.node(event) for event in circuit]))
    return waits.count, large


def _forks(mg: MaseGraph) -> bool:
    """True if anything is read twice.

    Raises:
        MaseError: for a node without hardware metadata.
    """
    read = list(output_nodes(mg))
    for node in mg.nodes:
        if node.op == "call_function":
            _check_hardware(node)
            read += [producer for _, producer in stream_operands(node)]
    return len(set(read)) < len(read)


def _check_hardware(node: Node) -> None:
    if metadata(node).hardware is None:
        raise MaseError(
            f"node {node.name} has no hardware metadata: run "
            "add_hardware_metadata_analysis_pass first"
        )


@dataclass
class _Unit:
    """A node that is more than a wire.

    Attributes:
        uses: who consumes its result.
        producers: where each operand comes from.
        places: the beats of its result that are ordered.
        needs: for each operand, its last beat that each result needs.
        together: for each operand, the first one whose beats it is consumed with.
        room: for each operand, the result that must have departed before each beat is consumed.
        interleaved: for each operand, the operands that alternate with it, and the last of their
            beats that is consumed before each of its own.
        beside: likewise, the beat of theirs that is consumed in the same cycle, negative for none.
        netlist: its cells.
        rounds: how often the cells compute: layers that run on the same hardware.
        returns: who consumes what comes back to it, behind the beats that come from before.
    """

    node: Node
    netlist: Netlist | None = None
    rounds: int = 1
    returns: Use | None = None
    producers: dict[str, Node] = field(default_factory=dict)
    uses: list[Use] = field(default_factory=list)
    places: Cycles = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    needs: dict[str, Cycles] = field(default_factory=dict)
    together: dict[str, str] = field(default_factory=dict)
    room: dict[str, Cycles] = field(default_factory=dict)
    interleaved: dict[str, dict[str, Cycles]] = field(default_factory=dict)
    beside: dict[str, dict[str, Cycles]] = field(default_factory=dict)

    @property
    def beats(self) -> int:
        """Beats of the result, all of them."""
        if self.netlist is None:
            return spec(self.node).beats
        return self.netlist.port(self.netlist.outputs["data_out_0"]).beats * self.rounds

    @property
    def results(self) -> int:
        """How many of them are ordered."""
        return self.places.size

    @property
    def queue_depth(self) -> int:
        """Beats that a queue holds, zero for what is none."""
        cell = self.netlist.main if self.netlist else None
        return cell.depth if isinstance(cell, StreamFifo) else 0

    def add_waits(self, units: Mapping[Node, _Unit]) -> None:
        """Add what the cells say of the beats that are ordered."""
        assert self.netlist is not None
        for name, producer in self.producers.items():
            places = units[producer].places
            self.needs[name] = _ordered(places, self._needed(name))
            self.room[name] = _ordered(self.places, self._freed(name, places))
            self.interleaved[name], self.beside[name] = {}, {}
            for other, (before, beside) in self._interleaving_of(name).items():
                known = units[self.producers[other]].places
                self.interleaved[name][other] = _ordered(known, before[places])
                self.beside[name][other] = _ordered(known, beside[places])
            self.together[name] = next(
                other
                for other in self.producers
                if other == name or order.together(self.netlist, other, name)
            )

    def _needed(self, name: str) -> Cycles:
        """Return the last beat of an operand that results need; negative for none."""
        assert self.netlist is not None
        layers, places = np.divmod(self.places, self.beats // self.rounds)
        needs = order.needs(self.netlist, name, places)
        beats = self.netlist.inputs[name].beats
        return np.where((needs < 0) & (layers == 0), -1, needs + layers * beats)

    def _freed(self, name: str, places: Cycles) -> Cycles:
        """Return the result that must have departed before some beats of an operand are consumed.

        No cell holds more than two layers.
        """
        assert self.netlist is not None
        if self.queue_depth:
            return places - self.queue_depth
        each = self.beats // self.rounds
        layers, own = np.divmod(places, self.netlist.inputs[name].beats)
        room = order.room(self.netlist, name, own)
        return np.where(room < 0, (layers - 1) * each - 1, room + layers * each)

    def _interleaving_of(self, name: str) -> dict[str, tuple[Cycles, Cycles]]:
        """Beats consumed before each beat of an operand, and beats consumed with it."""
        assert self.netlist is not None
        found = {}
        for other, (before, beside) in order.interleaving(self.netlist, name).items():
            if other in self.producers:
                layers = np.arange(self.rounds)[:, None] * self.netlist.inputs[other].beats
                with_it = np.where(beside < 0, -1, layers + beside)
                found[other] = (layers + before).reshape(-1), with_it.reshape(-1)
        return found


def _ordered(places: Cycles, beats: Cycles) -> Cycles:
    """Return the number of the last place that is not behind each of some beats, or negative."""
    return np.searchsorted(places, beats, side="right") - 1


def _units(mg: MaseGraph) -> dict[Node, _Unit]:
    """Return every unit by its node, in graph order."""
    units = {node: _Unit(node) for node in mg.inputs}
    returns = mg.sharing.returns if isinstance(mg, PhysicalGraph) else {}
    driver = {node: node for node in mg.inputs}
    for node in mg.nodes:
        if node.op == "output":
            for position, producer in enumerate(output_nodes(mg)):
                units[driver[producer]].uses.append((node, f"data_out_{position}"))
        elif node.op == "call_function":
            operands = {name: driver[producer] for name, producer in stream_operands(node)}
            netlist = mg.netlist(node)
            if _holds_nothing(netlist):
                (driver[node],) = operands.values()
                continue
            driver[node] = node
            back = (mg.node(returns[node.name]), "data_in_0") if node.name in returns else None
            units[node] = _Unit(node, netlist, mg.rounds(node), back, operands)
            for name, producer in operands.items():
                units[producer].uses.append((node, name))
    return units


def _holds_nothing(netlist: Netlist) -> bool:
    """True if a beat leaves in the cycle in which it enters, as through a wire."""
    if netlist.is_wire:
        return True
    name, *others = netlist.inputs
    count = netlist.inputs[name].beats
    if others or netlist.port(netlist.outputs["data_out_0"]).beats != count:
        return False
    beats = sampled(count)
    found = order.needs(netlist, name, beats), order.room(netlist, name, beats)
    return all(np.array_equal(places, beats) for places in found)


def _add_waits(units: Mapping[Node, _Unit], places: Places) -> None:
    """Add what the cells of all units say of their beats.

    A beat that is ordered waits for the last one that is ordered of those that it waits for.
    """
    for unit in units.values():
        unit.places = places(unit.beats)
    for unit in units.values():
        if unit.netlist is not None:
            unit.add_waits(units)


def _waits(units: Mapping[Node, _Unit]) -> Waits:
    """Return the waits of one inference.

    The beats that an operand consumes, or that operands consume together, are a run of events;
    behind a fork there is one more, of the beats that every consumer has consumed.
    """
    waits = Waits()
    consumed: dict[Use, int] = {}
    departed: dict[Node, int] = {}
    for unit in units.values():
        for node, name in unit.uses:
            together = units[node].together[name] if node in units else name
            if (node, together) not in consumed:
                consumed[node, together] = waits.add(node, unit.results)
            consumed[node, name] = consumed[node, together]
        runs = {consumed[use] for use in unit.uses}
        departed[unit.node] = runs.pop() if len(runs) == 1 else waits.add(unit.node, unit.results)
        for run in runs:
            waits.order(departed[unit.node], run, np.arange(unit.results))
    awaited = _awaited(units, consumed, departed)
    for unit in units.values():
        for name, room in unit.room.items():
            waits.order(consumed[unit.node, name], departed[unit.node], room)
            for other, last in unit.interleaved.get(name, {}).items():
                waits.order(consumed[unit.node, name], consumed[unit.node, other], last)
    for use, found in awaited.items():
        for first, places in found:
            waits.order(consumed[use], first, places)
    # What is consumed in one cycle waits for all that any of it waits for.
    for unit in units.values():
        for name, others in unit.beside.items():
            for other, beside in others.items():
                for first, places in awaited[unit.node, other]:
                    waits.order(
                        consumed[unit.node, name], first, np.where(beside < 0, -1, places[beside])
                    )
    return waits


def _awaited(
    units: Mapping[Node, _Unit], consumed: Mapping[Use, int], departed: Mapping[Node, int]
) -> dict[Use, list[tuple[int, Cycles]]]:
    """Return, for each operand, the runs of events that its beats wait for, and which of them."""
    awaited: dict[Use, list[tuple[int, Cycles]]] = {}
    for unit in units.values():
        for use in unit.uses:
            awaited[use] = [(departed[unit.node], np.arange(unit.results) - 1)]
            for name, needs in unit.needs.items():
                awaited[use].append((consumed[unit.node, name], needs))
            if unit.returns is not None:
                back = units[unit.returns[0]].producers[unit.returns[1]]
                before = unit.places - spec(unit.node).beats
                awaited[use].append((consumed[unit.returns], _ordered(units[back].places, before)))
    return awaited


def _message(units: Mapping[Node, _Unit], loop: list[Node]) -> str:
    """Return the loop, which begins anywhere, and the fix."""
    # It reads best from a join.
    joins = [i for i, node in enumerate(loop) if node in units and len(units[node].producers) > 1]
    start = joins[0] if joins else 0
    path: list[str] = []
    for node in [*loop[start:], *loop[:start]]:
        if node.name in path:
            del path[path.index(node.name) :]
        path.append(node.name)
    pairs = ", ".join(f"{name} waits for {other}" for name, other in pairwise([*path, path[0]]))
    passed = [units[node] for node in dict.fromkeys(loop) if node in units]
    held = [
        f"{unit.node.name} holds {unit.queue_depth} and needs {_least_depth(units, unit)} or more"
        for unit in passed
        if unit.queue_depth
    ]
    fix = f"{'; '.join(held)} (without a depth of yours it is computed)"
    return (
        f"the design would deadlock at {loop[start].name} ({location(loop[start])}): {pairs}; "
        f"{fix if held else 'there is no queue between them'}"
    )


def _least_depth(units: Mapping[Node, _Unit], queue: _Unit) -> int:
    """Return the least depth of a queue at which nothing waits for it in a loop."""
    beats = queue.beats
    others = {node: beats for node, unit in units.items() if unit.queue_depth}
    low, high = queue.queue_depth, beats
    while high - low > 1:
        middle = (low + high) // 2
        depths = others | {queue.node: middle}
        low, high = (middle, high) if _deadlocks(units, depths) else (low, middle)
    return high


def _deadlocks(units: Mapping[Node, _Unit], depths: Mapping[Node, int]) -> bool:
    changed = dict(units)
    for node, depth in depths.items():
        (producer,) = units[node].producers.values()
        places = units[producer].places
        room = dict.fromkeys(units[node].room, _ordered(units[node].places, places - depth))
        changed[node] = replace(units[node], room=room)
    return bool(_waits(changed).circuit())
