"""Loops (layers that share hardware) in the schedule that sets queue depths.

What computes in a layer has a clock of its own, which begins with each layer; what it takes from
outside and gives moves when that layer has begun.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from torch.fx import Node

from mase_hw.cells import Netlist
from mase_hw.geometry.beats import Cycles
from mase_hw.graph.laps import Laps, is_take
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.physical import PhysicalGraph
from mase_hw.graph.reference import spec
from mase_hw.graph.streams import stream_operands

# Cycles through the register of an end, and with the queue and the register of an entry.
REGISTER_CYCLES = 2
LAP_CYCLES = 3

Places = Callable[[int], Cycles]


@dataclass(eq=False)
class Turns:
    """One loop of a schedule.

    Attributes:
        laps: the nodes that are there.
        count: layers.
        busy: cycles between layers, at least.
        places: the beats of a tensor whose times are known.
        starts: when each layer of each inference begins.
    """

    laps: Laps
    count: int
    busy: int
    places: Places
    starts: Cycles

    @classmethod
    def all_of(cls, mg: MaseGraph, netlists: Mapping[Node, Netlist], places: Places) -> list[Turns]:
        """Return the loops of a graph."""
        found = []
        for laps in mg.turns.loops if isinstance(mg, PhysicalGraph) else ():
            work = [netlists[node].busy_cycles for node in laps.layers[0] if not is_take(node)]
            work += [spec(node).beats for node in (*laps.entries, *laps.takes)]
            count = max(mg.rounds(node) for node in laps.layers[0])
            found.append(cls(laps, count, max(work), places, np.zeros(0, dtype=np.int64)))
        return found

    @property
    def sources(self) -> tuple[Node, ...]:
        """What sends beats into a layer, evenly."""
        return (*self.laps.entries, *self.laps.takes)

    @property
    def inside(self) -> set[Node]:
        """What takes beats and offers beats in a layer."""
        ends = {end for end in self.laps.ends if self.laps.goes_on(end)}
        return {*self.laps.layers[0], *ends} - set(self.laps.takes)

    @property
    def leaving(self) -> set[Node]:
        """What takes beats in a layer and offers them outside."""
        return {*self.laps.ends, *self.laps.collects} - self.inside

    @property
    def sinks(self) -> set[Node]:
        """What takes beats at once."""
        return {*self.laps.ends, *self.laps.collects}

    def pace(self, offered: Mapping[Node, Cycles]) -> int:
        """Return the cycles between layers: what comes back enters the next one."""
        paces = [self.busy]
        for begin, end in zip(self.laps.entries, self.laps.ends, strict=True):
            came = self._first(offered[end.all_input_nodes[0]], spec(end).beats)
            paces.append(
                int((came - self._first(offered[begin], spec(begin).beats)).max()) + LAP_CYCLES
            )
        return max(paces)

    def begin(
        self, offered: Mapping[Node, Cycles], came: Mapping[Node, Cycles], inferences: int
    ) -> None:
        """Let each layer begin when the one before has gone on and what it takes has come.

        Args:
            offered: when beats are offered, inside by the clock of the layer.
            came: when what is taken from outside is offered, by what takes it.
            inferences: how many follow each other.
        """
        late = np.zeros((inferences, self.count), dtype=np.int64)
        for node in self.sources:
            times = came[node].reshape(inferences, -1)
            layers, own = self._own(node, offered[node], is_take(node))
            for layer in range(self.count):
                mine = layers == layer
                if mine.any():
                    here = (times - own)[:, mine].max(axis=1)
                    late[:, layer] = np.maximum(late[:, layer], here)
        pace, starts = self.pace(offered), late.reshape(-1)
        order = np.arange(starts.size) * pace
        self.starts = (np.maximum.accumulate(starts - order) + order).reshape(late.shape)

    def leaves(self, node: Node, offered: Mapping[Node, Cycles]) -> Cycles:
        """Return when beats leave the layers, at an end or in rows."""
        (given,) = (producer for _, producer in stream_operands(node))
        layers, own = self._own(node, offered[given], node in self.laps.collects)
        if node not in self.laps.collects:
            layers, own = layers + self.count - 1, own + REGISTER_CYCLES
        return (self.starts[:, layers] + own).reshape(-1)

    def taken(self, node: Node, gone: Cycles) -> Cycles:
        """Return when what goes into a layer is taken from outside, given when it goes on there."""
        layers, own = self._own(node, gone, is_take(node))
        return (self.starts[:, layers] + own).reshape(-1)

    def _own(self, node: Node, times: Cycles, rows: bool) -> tuple[Cycles, Cycles]:
        """Return the layer of each beat outside, and when it moves by the clock of that layer."""
        whole = spec(node).beats
        each = whole
        if rows:
            each, whole = (
                (whole, whole * self.count) if is_take(node) else (whole // self.count, whole)
            )
        layers, place = np.divmod(self.places(whole), each)
        return layers, self._first(times, each, place)

    def _first(self, times: Cycles, beats: int, wanted: Cycles | None = None) -> Cycles:
        """Return when beats of the first layer move."""
        known = self.places(beats)
        wanted = known if wanted is None else wanted
        return np.ceil(np.interp(wanted, known, times[: known.size])).astype(np.int64)
