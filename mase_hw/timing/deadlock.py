"""Deadlock check: the beats of an inference can move in some order.

A beat that moves is an event. It comes after the beats that determine it, after the beat before
it has gone to every consumer of a fork, and after the result that makes room for it has gone. A
design can deadlock exactly when these waits form a circuit (Commoner, Holt, Even and Pnueli,
"Marked Directed Graphs", 1971). No circuit lies across inferences, because only room is waited
for across them, and room is made by earlier ones: one inference tells.

What results need, and how far a node runs ahead of them, its cells say: `Netlist.needs` and
`Netlist.room`. That is the room which is there whatever the timing: pipelines that move as one hold
a few beats more when beats come close together, and no design may live by that.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import itemgetter

import numpy as np
from torch.fx import Node

from mase_hw.cells import MOVES, Curve, Netlist, Queue, sampled
from mase_hw.cells.stream_fifo import StreamFifo
from mase_hw.errors import EmissionError, MaseError
from mase_hw.geometry.beats import Cycles
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import location, metadata
from mase_hw.graph.physical import PhysicalGraph, physical
from mase_hw.graph.reference import output_nodes, spec
from mase_hw.graph.streams import stream_operands

# Cycles between beats that are far apart: more than any delay.
APART = 1 << 32

# Of a large design one in so many of the beats whose times are known is ordered.
ORDERED = 4

Use = tuple[Node, str]


def check_progress(mg: MaseGraph) -> tuple[int, bool]:
    """Refuse a design that would deadlock, naming the loop.

    Args:
        mg: a graph that went through the hardware metadata pass.

    Returns:
        The number of moves that were ordered, none without a fork, and whether only some beats of
        large nodes were looked at.

    Raises:
        EmissionError: when beats wait for each other.
    """
    mg = physical(mg)
    if not _forks(mg):
        return 0, False
    units = _units(mg)
    moves = (unit.netlist.moves * unit.rounds for unit in units.values() if unit.netlist)
    large = sum(moves) > MOVES
    if large:
        units = {node: _sketched(unit) for node, unit in units.items()}
    else:
        for unit in units.values():
            _add_waits(unit)
    if all(len(unit.uses) < 2 for unit in units.values()):
        return 0, False
    waits = _waits(units)
    loop = _loop(waits)
    if loop:
        raise EmissionError(_message(units, [waits.node(event) for event in loop]))
    return waits.count, large


def _forks(mg: MaseGraph) -> bool:
    """Return whether anything is read twice.

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
        results: beats of its result.
        uses: who takes its result.
        producers: where each operand comes from.
        needs: for each operand, its last beat that each result takes.
        together: for each operand, the first one whose beats it is taken with.
        room: for each operand, the result that must have gone before each beat is taken.
        turns: for each operand, the operands that it takes turns with, and the last of their beats
            that is taken before each of its own.
        beside: likewise, the beat of theirs that is taken in the same cycle, negative for none.
        netlist: its cells.
        sampled: whether only some beats are known.
        rounds: how often the cells compute: layers that run on the same hardware.
        returns: who takes what comes back to it, behind the beats that come from before.
    """

    node: Node
    results: int
    netlist: Netlist | None = None
    sampled: bool = False
    rounds: int = 1
    returns: Use | None = None
    uses: list[Use] = field(default_factory=list)
    producers: dict[str, Node] = field(default_factory=dict)
    needs: dict[str, Cycles] = field(default_factory=dict)
    together: dict[str, str] = field(default_factory=dict)
    room: dict[str, Cycles] = field(default_factory=dict)
    turns: dict[str, dict[str, Cycles]] = field(default_factory=dict)
    beside: dict[str, dict[str, Cycles]] = field(default_factory=dict)

    def turns_of(self, name: str) -> dict[str, tuple[Cycles, Cycles]]:
        """Return what is taken before each beat of an operand, of all rounds, and what with it."""
        assert self.netlist is not None
        found = {}
        for other, (before, beside) in self.netlist.turns(name).items():
            if other in self.producers:
                layers = np.arange(self.rounds)[:, None] * self.netlist.inputs[other].beats
                with_it = np.where(beside < 0, -1, layers + beside)
                found[other] = (layers + before).reshape(-1), with_it.reshape(-1)
        return found

    @property
    def beats(self) -> int:
        """Beats of the result, all of them."""
        if self.netlist is None:
            return spec(self.node).beats
        return self.netlist.port(self.netlist.outputs["data_out_0"]).beats * self.rounds

    def needed(self, name: str, results: Cycles) -> Cycles:
        """Return the last beat of an operand that some results need; negative for none."""
        assert self.netlist is not None
        layers, places = np.divmod(results, self.beats // self.rounds)
        needs = self.netlist.needs_of(name, places)
        beats = self.netlist.inputs[name].beats
        return np.where((needs < 0) & (layers == 0), -1, needs + layers * beats)

    def freed(self, name: str, places: Cycles) -> Cycles:
        """Return the result that must have gone before some beats of an operand are taken.

        No cell holds more than two layers.
        """
        assert self.netlist is not None
        each = self.beats // self.rounds
        if self.queue_depth:
            return places - self.queue_depth
        layers, own = np.divmod(places, self.netlist.inputs[name].beats)
        room = self.netlist.room_of(name, own)
        return np.where(room < 0, (layers - 1) * each - 1, room + layers * each)

    @property
    def queue_depth(self) -> int:
        """Beats that a queue holds, zero for what is none."""
        cell = self.netlist.main if self.netlist else None
        return cell.depth if isinstance(cell, StreamFifo) else 0


def _units(mg: MaseGraph) -> dict[Node, _Unit]:
    """Return every unit by its node, in graph order."""
    units = {node: _Unit(node, spec(node).beats) for node in mg.inputs}
    returns = mg.turns.returns if isinstance(mg, PhysicalGraph) else {}
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
            units[node] = _unit(node, netlist, operands, mg.rounds(node))
            if node.name in returns:
                units[node].returns = mg.node(returns[node.name]), "data_in_0"
            for name, producer in operands.items():
                units[producer].uses.append((node, name))
    return units


def _holds_nothing(netlist: Netlist) -> bool:
    """Return whether a beat leaves in the cycle in which it enters, as through a wire."""
    if netlist.is_wire:
        return True
    name, *others = netlist.inputs
    count = netlist.inputs[name].beats
    if others or netlist.port(netlist.outputs["data_out_0"]).beats != count:
        return False
    beats = sampled(count)
    found = netlist.needs_of(name, beats), netlist.room_of(name, beats)
    return all(np.array_equal(places, beats) for places in found)


def _unit(node: Node, netlist: Netlist, producers: dict[str, Node], rounds: int) -> _Unit:
    unit = _Unit(node, 0, netlist, rounds=rounds)
    unit.results, unit.producers = unit.beats, producers
    return unit


def _add_waits(unit: _Unit) -> None:
    """Add what the cells of a unit say of its beats."""
    netlist = unit.netlist
    if netlist is None:
        return
    # One operand after the other, so that only what waits for each other is taken together.
    apart = {
        name: np.arange(1, netlist.inputs[name].beats + 1) * APART + place * (APART >> 6)
        for place, name in enumerate(
            [*unit.producers, *netlist.inputs.keys() - unit.producers.keys()]
        )
    }
    taken = netlist.run(apart).taken
    for name in unit.producers:
        if unit.rounds == 1:
            unit.needs[name], unit.room[name] = netlist.needs(name), netlist.room(name)
        else:
            beats = netlist.inputs[name].beats * unit.rounds
            unit.needs[name] = unit.needed(name, np.arange(unit.beats))
            unit.room[name] = unit.freed(name, np.arange(beats))
        turns = unit.turns_of(name)
        unit.turns[name] = {other: before for other, (before, _) in turns.items()}
        unit.beside[name] = {other: beside for other, (_, beside) in turns.items()}
        unit.together[name] = next(
            other for other in unit.producers if np.array_equal(taken[other], taken[name])
        )


def _some(beats: int) -> Cycles:
    """Return the beats that are ordered of a large design, the last among them."""
    places = sampled(beats)
    return places if places.size == beats else places[::-ORDERED][::-1]


def _sketched(unit: _Unit) -> _Unit:
    """Return a unit of the sampled beats of its streams, for a design that is large.

    A sampled beat waits for the last one that is sampled of those that it waits for.
    """
    netlist = unit.netlist
    results = _some(unit.results)
    found = replace(unit, results=results.size, sampled=True)
    if netlist is None:
        return found
    apart = {
        name: _later(Curve.even(netlist.inputs[name].beats, APART, 1), place)
        for place, name in enumerate(unit.producers)
    }
    taken = netlist.sketch(apart).taken
    for name in unit.producers:
        places = _some(netlist.inputs[name].beats * unit.rounds)
        needs, room = netlist.needs_of(name, results), netlist.room_of(name, places)
        if unit.rounds > 1:
            needs, room = unit.needed(name, results), unit.freed(name, places)
        found.needs[name] = np.searchsorted(places, needs, side="right") - 1
        found.room[name] = np.searchsorted(results, room, side="right") - 1
        for other, (before, _) in unit.turns_of(name).items():
            known = _some(netlist.inputs[other].beats * unit.rounds)
            found.turns.setdefault(name, {})[other] = (
                np.searchsorted(known, before[places], side="right") - 1
            )
        found.together[name] = next(
            other
            for other in unit.producers
            if np.array_equal(taken[other].times, taken[name].times)
        )
    return found


def _later(curve: Curve, place: int) -> Curve:
    """Return a stream whose beats come a little later for each place."""
    return replace(curve, times=curve.times + place * (APART // curve.beats >> 6))


@dataclass
class _Waits:
    """Events, and which of them waits for which.

    Attributes:
        runs: the first event of each run of events, and the node that it is of.
        waiting: events that wait.
        awaited: for each of them, what it waits for.
        count: number of events.
    """

    runs: list[tuple[int, Node]] = field(default_factory=list)
    waiting: list[Cycles] = field(default_factory=list)
    awaited: list[Cycles] = field(default_factory=list)
    count: int = 0

    def add(self, node: Node, events: int) -> int:
        """Add a run of events of a node; return the first."""
        self.runs.append((self.count, node))
        self.count += events
        return self.count - events

    def order(self, first_waiting: int, first_awaited: int, awaited: Cycles) -> None:
        """Let events of a run wait for those of another; a negative number is none."""
        (waiting,) = np.nonzero(awaited >= 0)
        self.waiting.append(waiting + first_waiting)
        self.awaited.append(awaited[waiting] + first_awaited)

    def node(self, event: int) -> Node:
        """Return the node that an event is of."""
        return self.runs[bisect_right(self.runs, event, key=itemgetter(0)) - 1][1]


def _waits(units: Mapping[Node, _Unit]) -> _Waits:
    """Return the waits of one inference.

    A run of events are the beats that an operand takes, or that operands take together; behind a
    fork there is one more run, of the beats that every consumer has taken.
    """
    waits = _Waits()
    taken: dict[Use, int] = {}
    gone: dict[Node, int] = {}
    for unit in units.values():
        for node, name in unit.uses:
            together = units[node].together[name] if node in units else name
            if (node, together) not in taken:
                taken[node, together] = waits.add(node, unit.results)
            taken[node, name] = taken[node, together]
        runs = {taken[use] for use in unit.uses}
        gone[unit.node] = runs.pop() if len(runs) == 1 else waits.add(unit.node, unit.results)
        for run in runs:
            waits.order(gone[unit.node], run, np.arange(unit.results))
    awaited: dict[Use, list[tuple[int, Cycles]]] = {}
    for unit in units.values():
        for use in unit.uses:
            awaited[use] = [(gone[unit.node], np.arange(unit.results) - 1)]
            for name, needs in unit.needs.items():
                awaited[use].append((taken[unit.node, name], needs))
            if unit.returns is not None and not unit.sampled:
                each = spec(unit.node).beats
                awaited[use].append((taken[unit.returns], np.arange(unit.results) - each))
        for name, room in unit.room.items():
            waits.order(taken[unit.node, name], gone[unit.node], room)
            for other, turn in unit.turns.get(name, {}).items():
                waits.order(taken[unit.node, name], taken[unit.node, other], turn)
    for use, found in awaited.items():
        for first, places in found:
            waits.order(taken[use], first, places)
    # What is taken in one cycle waits for all that any of it waits for.
    for unit in units.values():
        for name, others in unit.beside.items():
            for other, beside in others.items():
                for first, places in awaited[unit.node, other]:
                    waits.order(
                        taken[unit.node, name], first, np.where(beside < 0, -1, places[beside])
                    )
    return waits


def _loop(waits: _Waits) -> list[int]:
    """Return events that wait for each other in turn, none where everything can move."""
    waiting, awaited = np.concatenate(waits.waiting), np.concatenate(waits.awaited)
    order = np.argsort(awaited, kind="stable")
    followers = waiting[order].tolist()
    starts = np.searchsorted(awaited[order], np.arange(waits.count + 1)).tolist()
    left = np.bincount(waiting, minlength=waits.count).tolist()
    free = [event for event, number in enumerate(left) if not number]
    moved = 0
    while free:
        event = free.pop()
        moved += 1
        for follower in followers[starts[event] : starts[event + 1]]:
            left[follower] -= 1
            if not left[follower]:
                free.append(follower)
    if moved == waits.count:
        return []
    blocked = {
        event: other
        for event, other in zip(waiting.tolist(), awaited.tolist(), strict=True)
        if left[other]
    }
    places: dict[int, int] = {}
    event = next(iter(blocked))
    while event not in places:
        places[event] = len(places)
        event = blocked[event]
    return list(places)[places[event] :]


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


def _room(beats: int, depth: int, places: Cycles | None) -> Cycles:
    """Return the room of a queue, of some of its beats."""
    if places is None:
        return Queue(depth).room("", beats)
    return np.searchsorted(places, places - depth, side="right") - 1


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
        places = _some(units[node].beats) if units[node].sampled else None
        room = dict.fromkeys(units[node].room, _room(units[node].beats, depth, places))
        changed[node] = replace(units[node], room=room)
    return bool(_loop(_waits(changed)))
