"""When sampled beats move through the cells of a node.

Each stage of each cell says what a result needs, what makes room for a beat, and how long it takes.
Times are known of the sampled beats of operands and results. Inside, they are known of some more:
of each beat that one of these needs, and of each that makes room for one. In between, beats are
taken to go on as before, up to a straight line. Where every beat is sampled, times are exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mase_hw.cells import Motion, Netlist, Wire
from mase_hw.geometry.beats import Cycles
from mase_hw.timing.curve import Curve, sampled


@dataclass(frozen=True)
class _Stage:
    """A motion between streams.

    Attributes:
        inputs: the streams that may be late.
        output: its result.
        step: cycles between results, at least.
    """

    motion: Motion
    inputs: Mapping[str, Wire]
    output: Wire
    step: float

    def offered(self, curves: Mapping[Wire, Curve], beats: int, known: Cycles) -> Curve:
        """Return when results are offered to a consumer that is always ready.

        Args:
            curves: when beats of the inputs are offered.
            beats: results of one inference.
            known: those whose times are wanted.
        """
        latest: Cycles | int = 0
        for port, wire in self.inputs.items():
            needs = self.motion.needs_of(port, curves[wire].beats, known)
            latest = np.maximum(latest, curves[wire].spaced().at(needs) + self.motion.lag)
        return Curve(beats, known, np.asarray(latest)).spaced(self.step)

    def consumed(self, curves: Mapping[Wire, Curve], departures: Curve) -> dict[Wire, Curve]:
        """Return when the beats of each input are consumed.

        Args:
            curves: when beats of inputs and results are offered.
            departures: of results.
        """
        found = {}
        given = {wire: curves[wire] for wire in self.inputs.values()}
        for port, wire in self.inputs.items():
            curve = given[wire]
            takers = self.motion.taker_of(port, curve.known)
            if takers is None:
                together = [item for item in given.values() if item.beats == curve.beats]
                times = np.maximum.reduce([item.at(curve.known) for item in together])
            else:
                times = np.maximum(curve.times, curves[self.output].at(takers) - self.motion.lag)
            # Through a wire a beat moves with its result; elsewhere a place is free a cycle later.
            room = self.motion.room_of(port, curve.beats, curve.known)
            free = departures.at(room) + (self.motion.lag > 0)
            found[wire] = Curve(curve.beats, curve.known, np.maximum(times, free)).spaced()
        return found


class SampledNode:
    """The stages of one node's cells.

    Args:
        netlist: its cells.
        operands: beats of each that streams, in one inference.
        steps: by constant operand from outside, cycles between its words, at least.
    """

    def __init__(
        self,
        netlist: Netlist,
        operands: Mapping[str, int],
        steps: Mapping[str, float] | None = None,
    ) -> None:
        netlist = netlist.flat
        slow = {netlist.constants[name]: step for name, step in (steps or {}).items()}
        self._end = netlist.outputs["data_out_0"]
        self._beats = {Wire("", name): beats for name, beats in operands.items()}
        self._stages: list[_Stage] = []
        for name, cell in netlist.cells.items():
            drivers = netlist.drivers(name)
            inputs = {port: wire for port, wire in drivers.items() if wire in self._beats}
            if not inputs:
                continue
            step = max([1.0, *(slow.get(wire.cell, 1.0) for wire in drivers.values())])
            port = next(iter(cell.outputs))
            stages = cell.motion.stages
            for number, motion in enumerate(stages, 1):
                last = number == len(stages)
                output = Wire(name, port if last else f"{port}.{number}")
                first, wire = next(iter(inputs.items()))
                self._beats[output] = motion.results(self._beats[wire], first)
                self._stages.append(_Stage(motion, inputs, output, step))
                inputs, step = {"": output}, 1.0
        self._known = {wire: sampled(beats) for wire, beats in self._beats.items()}
        self._ask()

    def _ask(self) -> None:
        """Let the beats be known inside that known ones need, and that make room for them."""
        fixed = {wire for wire in self._known if not wire.cell} | {self._end}

        def add(wire: Wire, beats: Cycles) -> None:
            if wire not in fixed and self._known[wire].size < self._beats[wire]:
                inside = beats[(beats >= 0) & (beats < self._beats[wire])]
                self._known[wire] = np.union1d(self._known[wire], inside)

        for stage in reversed(self._stages):
            for port, wire in stage.inputs.items():
                add(wire, stage.motion.needs_of(port, self._beats[wire], self._known[stage.output]))
        for stage in self._stages:
            for port, wire in stage.inputs.items():
                add(stage.output, stage.motion.room_of(port, self._beats[wire], self._known[wire]))

    def run(
        self, arrivals: Mapping[str, Cycles], departures: Cycles | None = None
    ) -> tuple[dict[str, Cycles], Cycles]:
        """Return when beats of each operand are consumed, from idle, and when results are offered.

        Args:
            arrivals: when sampled beats of each operand are offered.
            departures: when those of the result depart; None to a consumer that is always ready.
        """
        curves = self._offered(arrivals)
        end = curves[self._end]
        consumed: dict[Wire, Curve] = {}
        if departures is not None:
            consumed[self._end] = Curve.of(end.beats, np.maximum(departures, end.times))
        for stage in reversed(self._stages):
            leaves = consumed.get(stage.output, curves[stage.output])
            consumed |= stage.consumed(curves, leaves)
        given = {name: Wire("", name) for name in arrivals}
        found = {name: consumed.get(wire, curves[wire]).times for name, wire in given.items()}
        if departures is not None:
            end = self._offered(found)[self._end]
        return found, end.times

    def _offered(self, arrivals: Mapping[str, Cycles]) -> dict[Wire, Curve]:
        """Return when beats of each stream are offered to consumers that are always ready."""
        curves = {}
        for name, times in arrivals.items():
            wire = Wire("", name)
            curves[wire] = Curve(self._beats[wire], self._known[wire], times)
        for stage in self._stages:
            wire = stage.output
            curves[wire] = stage.offered(curves, self._beats[wire], self._known[wire])
        return curves
