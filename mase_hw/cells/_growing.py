"""Motion of blocks, sums and passes that grow from row to row, as in causal attention."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property

import numpy as np

from mase_hw.cells._motion import Arrivals, Fold, Motion, Movement, Steps, met, stored
from mase_hw.geometry.beats import Cycles, one_per_cycle
from mase_hw.geometry.growth import Growth


def growth_parameters(growth: Growth | None, runs: str, every: str = "EVERY") -> dict[str, int]:
    """Return the parameters of a module whose runs may grow.

    Args:
        growth: of the runs; None where all are alike.
        runs: the parameter that counts them until they begin anew.
        every: the one that counts those of a length.
    """
    return {every: growth.every, runs: growth.runs} if growth else {}


@dataclass(frozen=True)
class Stored(Motion):
    """Beats are stored, and sent in an order that repeats itself with every round of results.

    Attributes:
        latency: cycles from when a result is read to when it is offered.
        start: the first cycle after reset in which one is read.
    """

    _: KW_ONLY
    latency: int = 4
    start: int = 0

    def offered(self, arrivals: Arrivals) -> Cycles:
        """A result is read the cycle after the last beat that it needs was stored."""
        entered = met(arrivals)
        ready = np.maximum(entered[self.needs("", entered.size)] + 1, self.start)
        left: Cycles = one_per_cycle(ready) + self.latency
        return left

    def needs(self, port: str, beats: int) -> Cycles:
        return self.needs_of(port, beats, np.arange(self.results(beats)))

    def room(self, port: str, beats: int) -> Cycles:
        """What must have been sent, but for what may be on its way."""
        return self.room_of(port, beats, np.arange(beats))

    @property
    def lag(self) -> int:
        return self.latency + 1

    def under_pressure(self, arrivals: Arrivals, departures: Cycles) -> Movement:
        """A beat enters when what lay in its place has been read."""
        beats = met(arrivals).size
        needs, read = self.needs("", beats), self._read(np.arange(beats))
        return stored(arrivals, departures, needs, read, self.latency, self.start)

    @abstractmethod
    def _read(self, places: Cycles) -> Cycles:
        """Return the result that must have been read before beats enter; negative for none."""


@dataclass(frozen=True)
class GrowingReplay(Stored):
    """Blocks are stored, two at a time, and sent again and again.

    Attributes:
        blocks: beats of each block.
        sent: beats of each block as often as it is sent.
    """

    blocks: Growth
    sent: Growth

    def results(self, beats: int, port: str = "") -> int:
        """Every block as often as it is sent."""
        return self.blocks.count(beats) // self.sent.runs * self.sent.beats

    def needs_of(self, port: str, beats: int, results: Cycles) -> Cycles:
        block = self.sent.run(results)
        place = (results - self.sent.start(block)) % self.blocks.length(block)
        needs: Cycles = self.blocks.start(block) + place
        return needs

    def room_of(self, port: str, beats: int, places: Cycles) -> Cycles:
        return self._read(places) - Steps(self.latency).depth

    def _read(self, places: Cycles) -> Cycles:
        """The last result of the block two before."""
        return self.sent.end(self.blocks.run(places) - 2)


@dataclass(frozen=True)
class GrowingReorder(Stored):
    """A double buffer that is sent again and again, as far as each pass needs it.

    Attributes:
        inputs: beats of a tensor.
        last: for each pass, the last beat that it needs.
        passes: results of each pass.
    """

    inputs: int
    last: tuple[int, ...]
    passes: Growth

    @cached_property
    def _reach(self) -> Cycles:
        """The last beat that each pass of a tensor, or one before it, needs."""
        return np.maximum.accumulate(np.array(self.last))

    @property
    def _results(self) -> int:
        """Results of a tensor."""
        return len(self.last) // self.passes.runs * self.passes.beats

    def results(self, beats: int, port: str = "") -> int:
        return beats // self.inputs * self._results

    def needs_of(self, port: str, beats: int, results: Cycles) -> Cycles:
        """The last beat of the pass."""
        tensors, number = np.divmod(self.passes.run(results), len(self.last))
        needs: Cycles = tensors * self.inputs + self._reach[number]
        return needs

    def room_of(self, port: str, beats: int, places: Cycles) -> Cycles:
        return self._read(places) - Steps(self.latency).depth

    def _read(self, places: Cycles) -> Cycles:
        read: Cycles = (places // self.inputs - 1) * self._results - 1
        return read


@dataclass(frozen=True)
class GrowingFold(Fold):
    """Sums of more and more beats.

    Attributes:
        sums: beats of each.
    """

    _: KW_ONLY
    sums: Growth

    @property
    def depth(self) -> int:
        """As for sums of one beat."""
        return self.latency + 2

    def offered(self, arrivals: Arrivals) -> Cycles:
        come = met(arrivals)
        result: Cycles = come[self.needs("", come.size)] + self.latency
        return result

    def results(self, beats: int, port: str = "") -> int:
        return self.sums.count(beats)

    def needs(self, port: str, beats: int) -> Cycles:
        return self.needs_of(port, beats, np.arange(self.results(beats)))

    def needs_of(self, port: str, beats: int, results: Cycles) -> Cycles:
        return self.sums.end(results)

    def room_of(self, port: str, beats: int, places: Cycles) -> Cycles:
        room: Cycles = self.sums.run(places + 1) - 1 - self.depth
        return room


def pass_needs(last: Sequence[int], segments: int, passes: Growth, repeats: int) -> tuple[int, ...]:
    """Return the last beat that each pass needs of a tensor that is sent as far as it goes.

    Args:
        last: for each beat of the tensor as it would be sent whole, the last one that it needs.
        segments: parts of it, of each of which a pass takes a prefix.
        passes: beats of each pass.
        repeats: passes of a tensor.
    """
    reach = np.maximum.accumulate(np.array(last).reshape(segments, -1), axis=1).max(axis=0)
    lengths = passes.length(np.arange(repeats)) // segments
    return tuple(reach[lengths - 1].tolist())
