"""When the beats of a design move: of all of them, or of a large design sampled ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np
from torch.fx import Node

from mase_hw.cells import Netlist
from mase_hw.geometry.beats import Cycles
from mase_hw.graph.nodes import stream_operands
from mase_hw.graph.reference import spec
from mase_hw.timing.curve import SAMPLES, Curve, sampled
from mase_hw.timing.sampled import SampledNode
from mase_hw.timing.stages import Arrivals, NodeStages, NodeTimes

# Beats that move in an inference from which on times are sampled.
MOST_BEATS = 20_000_000


class Times(ABC):
    """When beats move through the nodes of a graph.

    Cycles are arrays of the known beats of a tensor, inference after inference.

    Args:
        netlists: the cells of each node.
    """

    # Cycles from one queue to the next; 0 where times are not known to the cycle.
    passing: int

    def __init__(self, netlists: Mapping[Node, Netlist]) -> None:
        self.netlists = netlists

    @abstractmethod
    def places(self, beats: int) -> Cycles:
        """Return the beats of a tensor whose times are known."""

    @abstractmethod
    def run(self, node: Node, arrivals: Arrivals, departures: Cycles | None = None) -> NodeTimes:
        """Return when a node's operands are consumed, from idle, and when its results are offered.

        Args:
            node: the node.
            arrivals: when beats of each operand are offered.
            departures: when results depart; None to consumers that are always ready.
        """

    @abstractmethod
    def occupancy(self, node: Node, arrivals: Cycles, departures: Cycles) -> int:
        """Return the most beats of a node's result that have come and not yet departed."""

    def even(self, beats: int, interval: int, inferences: int) -> Cycles:
        """Return when beats come evenly.

        Args:
            beats: of one inference.
            interval: cycles between inferences.
            inferences: how many come.
        """
        starts = np.arange(inferences)[:, None] * beats
        places: Cycles = (starts + self.places(beats)).reshape(-1)
        return places * interval // beats


class ExactTimes(Times):
    """Times of all beats, to the cycle."""

    passing = 1

    def __init__(self, netlists: Mapping[Node, Netlist]) -> None:
        super().__init__(netlists)
        self._stages: dict[Node, NodeStages] = {}

    def places(self, beats: int) -> Cycles:
        return np.arange(beats)

    def run(self, node: Node, arrivals: Arrivals, departures: Cycles | None = None) -> NodeTimes:
        """Simulate the handshakes between its cells."""
        if node not in self._stages:
            self._stages[node] = NodeStages(self.netlists[node], arrivals)
        consumed, offered = self._stages[node].run(arrivals, departures)
        return consumed, offered if departures is None else np.maximum(offered, departures)

    def occupancy(self, node: Node, arrivals: Cycles, departures: Cycles) -> int:
        """Count what has come when each beat departs."""
        come = np.searchsorted(np.sort(arrivals), departures, side="right")
        return int((come - np.arange(departures.size)).max())


class SampledTimes(Times):
    """Times of some beats of each tensor, spread evenly, to so many cycles.

    Args:
        netlists: the cells of each node.
        precision: cycles.
        steps: by node and constant operand from outside, cycles between words, at least.
    """

    passing = 0

    def __init__(
        self,
        netlists: Mapping[Node, Netlist],
        precision: int = 0,
        steps: Mapping[str, Mapping[str, float]] | None = None,
    ) -> None:
        super().__init__(netlists)
        self._precision = precision
        self._steps = steps or {}
        self._nodes: dict[Node, SampledNode] = {}

    def places(self, beats: int) -> Cycles:
        """Return some, evenly spread, the first and the last among them."""
        return sampled(beats)

    def run(self, node: Node, arrivals: Arrivals, departures: Cycles | None = None) -> NodeTimes:
        """Follow the sampled beats from cell to cell."""
        if node not in self._nodes:
            beats = {name: spec(given).beats for name, given in stream_operands(node)}
            self._nodes[node] = SampledNode(self.netlists[node], beats, self._steps.get(node.name))
        consumed, offered = self._nodes[node].run(arrivals, departures)
        if departures is None:
            return consumed, offered
        late = offered > departures + self._precision
        return consumed, np.where(late, offered, departures)

    def occupancy(self, node: Node, arrivals: Cycles, departures: Cycles) -> int:
        """Count what has come by then at most, and what has departed at least."""
        if np.array_equal(arrivals, departures):
            return 1
        came, left = Curve.of(spec(node).beats, arrivals), Curve.of(spec(node).beats, departures)
        # Beats between two sampled ones may depart as late as the second.
        first = np.append(-1, left.places[:-1]) + 1
        return max(1, int((came.come_by(departures) - first).max()))


def times_of(netlists: Mapping[Node, Netlist], interval: int) -> Times:
    """Return times of a design: of all beats, unless there are too many.

    Args:
        netlists: the cells of each node.
        interval: cycles between inferences.
    """
    if sum(netlist.beats for netlist in netlists.values()) <= MOST_BEATS:
        return ExactTimes(netlists)
    return SampledTimes(netlists, interval // SAMPLES)
