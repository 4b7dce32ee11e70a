"""How beats move through a cell in time: recurrences over the beats of every stream.

Time is counted in cycles, beats of one inference from 0; arrays may hold several inferences one
after another. A motion knows four things, from which the latency, the interval, the depth of
queues and the freedom from deadlock of any composition follow:

- `taken`: when beats are taken that are offered at given cycles,
- `offered`: when each result is offered to a consumer that is always ready,
- `needs`: the last beat of each input that every result is made of,
- `room`: the result that must have gone before a beat is taken: how much a cell can hold.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from mase_hw.geometry.beats import Cycles, one_per_cycle

Arrivals = Mapping[str, Cycles]


def met(arrivals: Arrivals) -> Cycles:
    """Return when beats move that move together, at most one of each stream per cycle."""
    return one_per_cycle(reduce(np.maximum, arrivals.values()))


class Motion(ABC):
    """How the beats of a cell move; its inputs move together, unless a subclass says otherwise."""

    @abstractmethod
    def offered(self, arrivals: Arrivals) -> Cycles:
        """Return when each beat of the result is offered, from idle, to a ready consumer.

        Args:
            arrivals: for each input that may be late, the cycle at which each beat is offered.
        """

    def taken(self, arrivals: Arrivals) -> dict[str, Cycles]:
        """Return when each beat of each input is taken."""
        return dict.fromkeys(arrivals, met(arrivals))

    @abstractmethod
    def needs(self, port: str, beats: int) -> Cycles:
        """Return the last beat of an input that each result of one inference needs, or -1.

        Args:
            port: the input.
            beats: its beats in an inference.
        """

    @abstractmethod
    def room(self, port: str, beats: int) -> Cycles:
        """Return which result must have gone before each beat of an input; negative for none."""


@dataclass(frozen=True)
class Steps(Motion):
    """Beat for beat, through registers.

    Attributes:
        latency: cycles from a beat to its result.
        held: beats that stay when no result goes, `latency` of them if it is not given.
    """

    latency: int = 1
    held: int | None = None

    def offered(self, arrivals: Arrivals) -> Cycles:
        """Each beat `latency` cycles after it was taken."""
        return met(arrivals) + self.latency

    def needs(self, port: str, beats: int) -> Cycles:
        """Each its own."""
        return np.arange(beats)

    def room(self, port: str, beats: int) -> Cycles:
        """What is held."""
        return np.arange(beats) - (self.latency if self.held is None else self.held)


@dataclass(frozen=True)
class Replay(Motion):
    """Blocks of beats are stored, two at a time, and sent again and again.

    Attributes:
        block: beats of a block.
        repeats: times it is sent.
    """

    block: int
    repeats: int

    def offered(self, arrivals: Arrivals) -> Cycles:
        """A beat is offered 2 cycles after it was stored, and when its block comes again."""
        stored = met(arrivals).reshape(-1, 1, self.block) + 2
        shape = (len(stored), self.repeats, self.block)
        return one_per_cycle(np.broadcast_to(stored, shape).reshape(-1))

    def needs(self, port: str, beats: int) -> Cycles:
        """Every block again and again."""
        blocks = np.arange(beats).reshape(-1, 1, self.block)
        return np.broadcast_to(blocks, (len(blocks), self.repeats, self.block)).reshape(-1)

    def room(self, port: str, beats: int) -> Cycles:
        """The last beat of the block before is read once the beat before that has moved on."""
        before = np.arange(beats) // self.block - 1
        return before * self.block * self.repeats - 2


@dataclass(frozen=True)
class Fold(Motion):
    """Rounds of beats become one round of results: beats `inner` apart are reduced.

    Attributes:
        terms: rounds that are reduced.
        latency: cycles from the last beat of a result to the result.
        held: results that wait when none goes.
        inner: beats of a round.
    """

    terms: int
    latency: int
    held: int
    inner: int = 1

    def offered(self, arrivals: Arrivals) -> Cycles:
        """A result follows its last beat."""
        last = met(arrivals).reshape(-1, self.terms, self.inner)[:, -1]
        result: Cycles = last.reshape(-1) + self.latency
        return result

    def needs(self, port: str, beats: int) -> Cycles:
        """The last round."""
        rounds = np.arange(beats).reshape(-1, self.terms, self.inner)
        return rounds[:, -1].reshape(-1)

    def room(self, port: str, beats: int) -> Cycles:
        """What is held behind the next result: sums wait in a memory of their own."""
        room: Cycles = np.searchsorted(self.needs(port, beats), np.arange(beats)) - self.held
        return room


@dataclass(frozen=True)
class Queue(Motion):
    """A queue of `depth` beats."""

    depth: int

    def offered(self, arrivals: Arrivals) -> Cycles:
        """A beat is offered the cycle after it entered."""
        return self._entered(arrivals) + 1

    def taken(self, arrivals: Arrivals) -> dict[str, Cycles]:
        """A beat a cycle; one that holds a single beat is full until that has gone."""
        return dict.fromkeys(arrivals, self._entered(arrivals))

    def _entered(self, arrivals: Arrivals) -> Cycles:
        moved = met(arrivals)
        spaced = np.arange(moved.size) if self.depth == 1 else 0
        entered: Cycles = one_per_cycle(moved - spaced) + spaced
        return entered

    def needs(self, port: str, beats: int) -> Cycles:
        """Each its own."""
        return np.arange(beats)

    def room(self, port: str, beats: int) -> Cycles:
        """As many beats as it holds."""
        return np.arange(beats) - self.depth


@dataclass(frozen=True)
class Blocks(Motion):
    """Beats wait until the last of their block of one scale has come.

    Attributes:
        block: beats of a block, within a row.
        row: beats of a row; its last block may be shorter.
    """

    block: int
    row: int

    def offered(self, arrivals: Arrivals) -> Cycles:
        """A beat is offered 2 cycles after the last of its block entered."""
        moved = met(arrivals).reshape(-1, self.row)
        last = np.minimum((np.arange(self.row) // self.block + 1) * self.block, self.row) - 1
        return one_per_cycle(moved[:, last].reshape(-1) + 1) + 1

    def needs(self, port: str, beats: int) -> Cycles:
        """The last of the block."""
        place = np.arange(beats) % self.row
        last = np.minimum((place // self.block + 1) * self.block, self.row) - 1
        needs: Cycles = np.arange(beats) - place + last
        return needs

    def room(self, port: str, beats: int) -> Cycles:
        """Two blocks, and a beat on offer."""
        return np.arange(beats) - (2 * self.block + 1)


@dataclass(frozen=True)
class Reorder(Motion):
    """A double buffer from which beats leave in another order.

    Attributes:
        inputs: beats of a tensor.
        last: for each result, the last beat that it needs.
    """

    inputs: int
    last: tuple[int, ...]

    def offered(self, arrivals: Arrivals) -> Cycles:
        """A result leaves 2 cycles after the last of its elements entered."""
        entered = met(arrivals).reshape(-1, self.inputs)
        ready = entered[:, np.array(self.last)] + 1
        return one_per_cycle(ready.reshape(-1)) + 1

    def needs(self, port: str, beats: int) -> Cycles:
        """The last of its elements, and of those before."""
        return np.maximum.accumulate(np.array(self.last))

    def room(self, port: str, beats: int) -> Cycles:
        """Two whole tensors."""
        return np.full(beats, -1)


@dataclass(frozen=True)
class Select(Motion):
    """Some results of every row of beats, in order, through a register.

    Attributes:
        row: beats of a row.
        last: for each result of a row, the last beat that it needs; `row` says a cycle after it.
    """

    row: int
    last: tuple[int, ...]

    def offered(self, arrivals: Arrivals) -> Cycles:
        """The cycle after the last of its beats; what follows the row comes a cycle later."""
        rows, last = met(arrivals).reshape(-1, self.row), np.array(self.last)
        result: Cycles = rows[:, np.minimum(last, self.row - 1)] + (last == self.row) + 1
        return result.reshape(-1)

    def needs(self, port: str, beats: int) -> Cycles:
        """The last of its beats."""
        starts = np.arange(0, beats, self.row)[:, None]
        needs: Cycles = starts + np.minimum(np.array(self.last), self.row - 1)
        return needs.reshape(-1)

    def room(self, port: str, beats: int) -> Cycles:
        """One result; another one where all of a row follow the row."""
        held = 1 + int(min(self.last) == self.row)
        room: Cycles = np.searchsorted(self.needs(port, beats), np.arange(beats)) - held
        return room


@dataclass(frozen=True)
class Chain(Motion):
    """Motions one behind another, within one cell."""

    motions: tuple[Motion, ...]

    def offered(self, arrivals: Arrivals) -> Cycles:
        """Of the last one."""
        offered = self.motions[0].offered(arrivals)
        for motion in self.motions[1:]:
            offered = motion.offered({"": offered})
        return offered

    def taken(self, arrivals: Arrivals) -> dict[str, Cycles]:
        """Of the first one."""
        return self.motions[0].taken(arrivals)

    def needs(self, port: str, beats: int) -> Cycles:
        """Through all."""
        needs = np.arange(beats)
        for motion in self.motions:
            needs = through(motion.needs(port, needs.size), needs)
        return needs

    def room(self, port: str, beats: int) -> Cycles:
        """Through all."""
        rooms = []
        for motion in self.motions:
            rooms.append(motion.room(port, beats))
            beats = motion.needs(port, beats).size
        return follow(rooms)


def through(last: Cycles, needs: Cycles) -> Cycles:
    """Return what beats need that need others of a stream; negative for none.

    Args:
        last: the last beat of the stream that each needs.
        needs: what those beats need.
    """
    return np.where(last >= 0, needs[np.maximum(last, 0)], -1)


def follow(rooms: Sequence[Cycles]) -> Cycles:
    """Return the room of motions one behind another: what makes room for what makes room."""
    found = rooms[0]
    for room in rooms[1:]:
        found = np.where(found >= 0, room[np.clip(found, 0, room.size - 1)], -1)
    return found
