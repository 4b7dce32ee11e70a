"""Departures and consumptions of beats: of all, or of samples of a large design."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from torch.fx import Node

from mase_hw.cells import Arrivals, Curve, Netlist, sampled
from mase_hw.geometry.beats import Cycles
from mase_hw.graph.reference import spec

Run = Callable[[Netlist, Arrivals, int, Cycles | None], tuple[Mapping[str, Cycles], Cycles]]


@dataclass(frozen=True)
class BeatTimes:
    """How times of beats are known.

    Attributes:
        places: returns the beats of a tensor whose times are.
        even: returns when beats come evenly, given beats, cycles between inferences, and how many.
        send: returns when results are offered, given when operands are.
        run: returns when operands are taken, and when results leave, given when operands are
            offered, the cycles to which that is known, and when results shall leave.
        most_waiting: returns the most beats of a result that have gone and are not yet taken.
        passing: cycles from one queue to the next; 0 where times are not known to the cycle.
    """

    places: Callable[[int], Cycles]
    even: Callable[[int, int, int], Cycles]
    send: Callable[[Netlist, Arrivals], Cycles]
    run: Run
    most_waiting: Callable[[Node, Cycles, Cycles], int]
    passing: int


def _even(beats: int, interval: int, inferences: int) -> Cycles:
    return np.arange(inferences * beats) * interval // beats


def _send(netlist: Netlist, arrivals: Arrivals) -> Cycles:
    return netlist.run(arrivals).offered["data_out_0"]


def _run(
    netlist: Netlist, arrivals: Arrivals, step: int, gone: Cycles | None
) -> tuple[Mapping[str, Cycles], Cycles]:
    flow = netlist.run(arrivals, gone)
    offered = flow.offered["data_out_0"]
    return flow.taken, offered if gone is None else np.maximum(offered, gone)


def _most_waiting(producer: Node, offered: Cycles, taken: Cycles) -> int:
    come = np.searchsorted(np.sort(offered), taken, side="right")
    return int((come - np.arange(taken.size)).max())


def _even_sketched(beats: int, interval: int, inferences: int) -> Cycles:
    return Curve.even(beats, interval, inferences).times


def _curves(netlist: Netlist, arrivals: Arrivals) -> dict[str, Curve]:
    return {name: Curve(netlist.inputs[name].beats, times) for name, times in arrivals.items()}


def _send_sketched(netlist: Netlist, arrivals: Arrivals) -> Cycles:
    return netlist.sketch(_curves(netlist, arrivals)).offered.times


def _run_sketched(
    netlist: Netlist, arrivals: Arrivals, step: int, gone: Cycles | None
) -> tuple[Mapping[str, Cycles], Cycles]:
    sketch = netlist.sketch(_curves(netlist, arrivals), gone)
    taken = {name: curve.times for name, curve in sketch.taken.items()}
    offered = sketch.offered.times
    return taken, offered if gone is None else np.where(offered > gone + step, offered, gone)


def _most_waiting_between(producer: Node, gone: Cycles, taken: Cycles) -> int:
    came, went = Curve(spec(producer).beats, gone), Curve(spec(producer).beats, taken)
    return max(1, int((came.come_by(taken) - went.places).max()))


EXACT = BeatTimes(np.arange, _even, _send, _run, _most_waiting, 1)
SKETCHED = BeatTimes(
    sampled, _even_sketched, _send_sketched, _run_sketched, _most_waiting_between, 0
)
