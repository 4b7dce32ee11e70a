"""Motion of a cell: recurrences over the beats of every stream.

Time is counted in cycles from the first one after reset, beats of one inference from 0; arrays may
hold several inferences one after another. A motion knows four things, from which the latency, the
interval, the depth of queues and the freedom from deadlock of any composition follow:

- `consumed`: when beats are consumed that are offered at given cycles,
- `offered`: when each result is offered to a consumer that is always ready,
- `needs`: the last beat of each input that every result is made of,
- `room`: the result that must have departed before a beat is consumed: how much a cell can hold.

Where a consumer is not always ready, a fifth one says when beats move, cycle by cycle as the module
does: `under_pressure`, given when each result departs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from mase_hw.geometry.beats import Cycles, one_per_cycle

Arrivals = Mapping[str, Cycles]


def met(arrivals: Arrivals) -> Cycles:
    """Return when beats move that move together, at most one of each stream per cycle."""
    return one_per_cycle(reduce(np.maximum, arrivals.values()))


def behind(departures: Cycles, places: int = 1) -> Cycles:
    """Return, for each result, when the one `places` before it departs; -1 for none."""
    if not places:
        return departures
    before = np.full(departures.size, -1)
    before[places:] = departures[:-places]
    return before


@dataclass(frozen=True)
class Movement:
    """When the beats of a cell move.

    Attributes:
        consumed: of each input.
        offered: of the result.
    """

    consumed: Mapping[str, Cycles]
    offered: Cycles

    def same(self, other: Movement) -> bool:
        """True if all beats move when they do there."""
        return np.array_equal(self.offered, other.offered) and all(
            np.array_equal(times, other.consumed[port]) for port, times in self.consumed.items()
        )


class Motion(ABC):
    """How the beats of a cell move; its inputs move together, unless a subclass says otherwise."""

    @abstractmethod
    def offered(self, arrivals: Arrivals) -> Cycles:
        """Return when each beat of the result is offered, from idle, to a ready consumer.

        Args:
            arrivals: for each input that may be late, the cycle at which each beat is offered.
        """

    def consumed(self, arrivals: Arrivals) -> dict[str, Cycles]:
        """Return when each beat of each input is consumed."""
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
        """Return the result that must depart before each beat of an input; negative for none."""

    @abstractmethod
    def under_pressure(self, arrivals: Arrivals, departures: Cycles) -> Movement:
        """Return when beats move, from idle, to a consumer that holds them up.

        Args:
            arrivals: for each input that may be late, the cycle at which each beat is offered.
            departures: of each result; what is offered later departs at once.
        """

    @property
    def stages(self) -> tuple[Motion, ...]:
        """Motions one behind another that have handshakes between them, of which this is made."""
        return (self,)

    @property
    @abstractmethod
    def lag(self) -> int:
        """Cycles from the last beat that a result needs to when the result is offered."""

    def results(self, beats: int, port: str = "") -> int:
        """Return the results that beats of an input become, of its only one without a name."""
        return self.needs(port, beats).size

    def needs_of(self, port: str, beats: int, results: Cycles) -> Cycles:
        """Beats that some results need, or some before them: `needs` without all the others."""
        return self.needs(port, beats)[results]

    def room_of(self, port: str, beats: int, places: Cycles) -> Cycles:
        """Beats that must have departed before some beats: `room` without all the others."""
        return self.room(port, beats)[places]

    def taker_of(self, port: str, places: Cycles) -> Cycles | None:
        """Return the results with which beats are consumed; None where all inputs move together."""
        return None

    def interleaving(self, port: str, other: str, beats: int) -> tuple[Cycles, Cycles] | None:
        """Return which beats of another input are consumed before and with each beat of an input.

        Args:
            port: the input.
            other: another one.
            beats: of the input, in an inference.

        Returns:
            The last beat before it, and the one that is consumed with it, negative for none;
            None where neither input waits for its turn.
        """
        return None


@dataclass(frozen=True)
class Steps(Motion):
    """Beat for beat, through a pipeline that never stops and a queue with room for all in it.

    Attributes:
        latency: cycles from a beat to its result; 0 for a wire.
    """

    latency: int = 2

    @property
    def depth(self) -> int:
        """Beats on their way or waiting: the place of one is free the cycle after it left."""
        return self.latency + 1 if self.latency else 0

    def offered(self, arrivals: Arrivals) -> Cycles:
        """Each beat `latency` cycles after it was consumed."""
        return met(arrivals) + self.latency

    def needs(self, port: str, beats: int) -> Cycles:
        return np.arange(beats)

    def room(self, port: str, beats: int) -> Cycles:
        return np.arange(beats) - self.depth

    @property
    def lag(self) -> int:
        return self.latency

    def results(self, beats: int, port: str = "") -> int:
        return beats

    def needs_of(self, port: str, beats: int, results: Cycles) -> Cycles:
        return results

    def room_of(self, port: str, beats: int, places: Cycles) -> Cycles:
        return places - self.depth

    def under_pressure(self, arrivals: Arrivals, departures: Cycles) -> Movement:
        """Beats enter while there is room for their results; through a wire, when those go."""
        come = met(arrivals)
        if not self.latency:
            consumed = one_per_cycle(np.maximum(come, departures))
            return Movement(
                dict.fromkeys(arrivals, consumed), np.maximum(come, behind(departures) + 1)
            )
        consumed = one_per_cycle(np.maximum(come, behind(departures, self.depth) + 1))
        offered = np.maximum(consumed + self.latency, behind(departures) + 1)
        return Movement(dict.fromkeys(arrivals, consumed), offered)


@dataclass(frozen=True)
class Replay(Motion):
    """Blocks of beats are stored, two at a time, and sent again and again.

    Attributes:
        block: beats of a block.
        repeats: times it is sent.
        latency: cycles from when a beat is read to when it is offered.
    """

    block: int
    repeats: int
    latency: int = 4

    def offered(self, arrivals: Arrivals) -> Cycles:
        """A beat is read the cycle after it was stored, and when its block comes again."""
        stored = met(arrivals).reshape(-1, 1, self.block) + 1
        shape = (len(stored), self.repeats, self.block)
        return one_per_cycle(np.broadcast_to(stored, shape).reshape(-1)) + self.latency

    def needs(self, port: str, beats: int) -> Cycles:
        blocks = np.arange(beats).reshape(-1, 1, self.block)
        return np.broadcast_to(blocks, (len(blocks), self.repeats, self.block)).reshape(-1)

    def room(self, port: str, beats: int) -> Cycles:
        """The last beats of the block before may be on their way."""
        return self._replayed(np.arange(beats)) - Steps(self.latency).depth

    @property
    def lag(self) -> int:
        return self.latency + 1

    def results(self, beats: int, port: str = "") -> int:
        return beats * self.repeats

    def needs_of(self, port: str, beats: int, results: Cycles) -> Cycles:
        """A block beat by beat for the first time, and then the whole of it."""
        block, place = np.divmod(results, self.block * self.repeats)
        needs: Cycles = block * self.block + np.minimum(place, self.block - 1)
        return needs

    def room_of(self, port: str, beats: int, places: Cycles) -> Cycles:
        return self._replayed(places) - Steps(self.latency).depth

    def under_pressure(self, arrivals: Arrivals, departures: Cycles) -> Movement:
        """There is room for two blocks."""
        beats = met(arrivals).size
        replayed = self._replayed(np.arange(beats))
        return stored(arrivals, departures, self.needs("", beats), replayed, self.latency)

    def _replayed(self, places: Cycles) -> Cycles:
        """Return the last result of the block two before that of beats; negative for none."""
        replayed: Cycles = (places // self.block - 1) * self.block * self.repeats - 1
        return replayed


@dataclass(frozen=True)
class Fold(Motion):
    """Rounds of beats become one round of results: beats `inner` apart are reduced.

    Results leave through a pipeline that never stops and a queue with room for all in it.

    Attributes:
        terms: rounds that are reduced.
        latency: cycles from the last beat of a result to the result.
        inner: beats of a round.
    """

    terms: int
    latency: int
    inner: int = 1

    @property
    def depth(self) -> int:
        """Results on their way or waiting.

        As many as come until the first has left, and one that waits for its turn with a consumer
        that takes results in bursts.
        """
        rounds, more = divmod(self.latency + 1, self.terms * self.inner)
        return rounds * self.inner + min(more, self.inner) + 1

    def offered(self, arrivals: Arrivals) -> Cycles:
        last = met(arrivals).reshape(-1, self.terms, self.inner)[:, -1]
        result: Cycles = last.reshape(-1) + self.latency
        return result

    def needs(self, port: str, beats: int) -> Cycles:
        rounds = np.arange(beats).reshape(-1, self.terms, self.inner)
        return rounds[:, -1].reshape(-1)

    def room(self, port: str, beats: int) -> Cycles:
        """For the last beat of a result, a place; the others are behind the last one before."""
        last = self.needs(port, beats)
        room: Cycles = np.searchsorted(last, np.arange(beats), side="right") - 1 - self.depth
        return room

    @property
    def lag(self) -> int:
        return self.latency

    def results(self, beats: int, port: str = "") -> int:
        return beats // self.terms

    def needs_of(self, port: str, beats: int, results: Cycles) -> Cycles:
        rounds, inner = np.divmod(results, self.inner)
        needs: Cycles = (rounds * self.terms + self.terms - 1) * self.inner + inner
        return needs

    def room_of(self, port: str, beats: int, places: Cycles) -> Cycles:
        rounds, rest = np.divmod(places, self.terms * self.inner)
        ended = np.maximum(rest - (self.terms - 1) * self.inner + 1, 0)
        room: Cycles = rounds * self.inner + ended - 1 - self.depth
        return room

    def under_pressure(self, arrivals: Arrivals, departures: Cycles) -> Movement:
        """The last beat of a result enters when there is a place for the result."""
        come = met(arrivals)
        last = self.needs("", come.size)
        free = come.copy()
        free[last] = np.maximum(free[last], behind(departures, self.depth) + 1)
        consumed = one_per_cycle(free)
        offered = np.maximum(consumed[last] + self.latency, behind(departures) + 1)
        return Movement(dict.fromkeys(arrivals, consumed), offered)


@dataclass(frozen=True)
class Queue(Motion):
    """A queue of `depth` beats; the place of the only one is free the cycle after it left."""

    depth: int

    @property
    def step(self) -> int:
        """Cycles from one beat to the next."""
        return 1 if self.depth > 1 else 2

    def offered(self, arrivals: Arrivals) -> Cycles:
        """A beat is offered the cycle after it entered."""
        (entered,) = self.consumed(arrivals).values()
        return entered + 1

    def consumed(self, arrivals: Arrivals) -> dict[str, Cycles]:
        """As far apart as the queue asks."""
        order = np.arange(met(arrivals).size) * self.step
        entered: Cycles = np.maximum.accumulate(met(arrivals) - order) + order
        return dict.fromkeys(arrivals, entered)

    def needs(self, port: str, beats: int) -> Cycles:
        return np.arange(beats)

    def room(self, port: str, beats: int) -> Cycles:
        """As many beats as it holds."""
        return np.arange(beats) - self.depth

    @property
    def lag(self) -> int:
        return 1

    def results(self, beats: int, port: str = "") -> int:
        return beats

    def needs_of(self, port: str, beats: int, results: Cycles) -> Cycles:
        return results

    def room_of(self, port: str, beats: int, places: Cycles) -> Cycles:
        """As many beats as it holds."""
        return places - self.depth

    def under_pressure(self, arrivals: Arrivals, departures: Cycles) -> Movement:
        """A place is free the cycle after its beat left."""
        free = behind(departures, self.depth) + 1
        (entered,) = self.consumed({"": np.maximum(met(arrivals), free)}).values()
        offered = np.maximum(entered, behind(departures)) + 1
        return Movement(dict.fromkeys(arrivals, entered), offered)


@dataclass(frozen=True)
class Blocks(Motion):
    """Beats wait until the last of their block of one scale has come, in a pipeline like `Steps`.

    Attributes:
        block: beats of a block, within a row.
        row: beats of a row; its last block may be shorter.
        latency: cycles from the last beat of a block to its first result.
        interval: cycles between beats, at least; with fewer, fewer beats are on their way.
    """

    block: int
    row: int
    latency: int
    interval: int = 1

    @property
    def depth(self) -> int:
        """Beats on their way or waiting; where beats are apart, one that waits for its turn."""
        waiting = int(self.interval > 1)
        return self.block - 1 - (-(self.latency + 1) // self.interval) + waiting

    def offered(self, arrivals: Arrivals) -> Cycles:
        """A block follows its last beat."""
        last = met(arrivals)[self.needs("", met(arrivals).size)]
        return one_per_cycle(last + self.latency)

    def needs(self, port: str, beats: int) -> Cycles:
        return self.needs_of(port, beats, np.arange(beats))

    def room(self, port: str, beats: int) -> Cycles:
        return np.arange(beats) - self.depth

    @property
    def lag(self) -> int:
        return self.latency

    def results(self, beats: int, port: str = "") -> int:
        return beats

    def needs_of(self, port: str, beats: int, results: Cycles) -> Cycles:
        place = results % self.row
        last = np.minimum((place // self.block + 1) * self.block, self.row) - 1
        needs: Cycles = results - place + last
        return needs

    def room_of(self, port: str, beats: int, places: Cycles) -> Cycles:
        return places - self.depth

    def under_pressure(self, arrivals: Arrivals, departures: Cycles) -> Movement:
        """Beats enter while there is room for their results."""
        consumed = one_per_cycle(np.maximum(met(arrivals), behind(departures, self.depth) + 1))
        offered = np.maximum(self.offered({"": consumed}), behind(departures) + 1)
        return Movement(dict.fromkeys(arrivals, consumed), offered)


@dataclass(frozen=True)
class Reorder(Motion):
    """A double buffer from which beats leave in another order.

    Attributes:
        inputs: beats of a tensor.
        last: for each result, the last beat that it needs.
        latency: cycles from when a result is read to when it is offered.
        start: the first cycle after reset in which one is read.
        repeats: times that a tensor is sent.
    """

    inputs: int
    last: tuple[int, ...]
    latency: int = 8
    start: int = 2
    repeats: int = 1

    @cached_property
    def _reach(self) -> Cycles:
        """The last beat that each result of a tensor, or one before it, needs."""
        return np.maximum.accumulate(np.array(self.last))

    @property
    def _last(self) -> Cycles:
        return np.tile(np.array(self.last), self.repeats)

    def offered(self, arrivals: Arrivals) -> Cycles:
        """A result is read the cycle after the last of its elements entered."""
        entered = met(arrivals).reshape(-1, self.inputs)
        ready = np.maximum(entered[:, self._last] + 1, self.start)
        left: Cycles = one_per_cycle(ready.reshape(-1)) + self.latency
        return left

    def needs(self, port: str, beats: int) -> Cycles:
        return self.needs_of(port, beats, np.arange(self.results(beats)))

    def room(self, port: str, beats: int) -> Cycles:
        """Two whole tensors; the last beats of the one before may be on their way."""
        return self.room_of(port, beats, np.arange(beats))

    @property
    def lag(self) -> int:
        """A result is read the cycle after the last of its elements entered."""
        return self.latency + 1

    def results(self, beats: int, port: str = "") -> int:
        """All of them, as often as a tensor is sent."""
        return beats // self.inputs * len(self.last) * self.repeats

    def needs_of(self, port: str, beats: int, results: Cycles) -> Cycles:
        last = self._reach
        tensors, places = np.divmod(results, last.size * self.repeats)
        needs: Cycles = tensors * self.inputs + last[np.minimum(places, last.size - 1)]
        return needs

    def room_of(self, port: str, beats: int, places: Cycles) -> Cycles:
        return self._replayed(places) - Steps(self.latency).depth

    def under_pressure(self, arrivals: Arrivals, departures: Cycles) -> Movement:
        """A third tensor enters when the first has left."""
        beats = met(arrivals).size
        starts = np.arange(0, beats, self.inputs)[:, None]
        needs = (starts + self._last).reshape(-1)
        replayed = self._replayed(np.arange(beats))
        return stored(arrivals, departures, needs, replayed, self.latency, self.start)

    def _replayed(self, places: Cycles) -> Cycles:
        """Return the last result of the tensor two before that of beats; negative for none."""
        replayed: Cycles = (places // self.inputs - 1) * len(self.last) * self.repeats - 1
        return replayed


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
        """Two cycles after the last of its beats; what follows the row comes a cycle later."""
        rows, last = met(arrivals).reshape(-1, self.row), np.array(self.last)
        result: Cycles = rows[:, np.minimum(last, self.row - 1)] + (last == self.row) + 2
        return result.reshape(-1)

    def needs(self, port: str, beats: int) -> Cycles:
        starts = np.arange(0, beats, self.row)[:, None]
        needs: Cycles = (starts + np.minimum(np.array(self.last), self.row - 1)).reshape(-1)
        return needs

    def room(self, port: str, beats: int) -> Cycles:
        """Three results; another one where all of a row follow the row."""
        last = np.arange(0, beats, self.row)[:, None] + np.array(self.last)
        room: Cycles = np.searchsorted(last.reshape(-1), np.arange(beats), side="right") - 4
        return room

    @property
    def lag(self) -> int:
        return 2

    def under_pressure(self, arrivals: Arrivals, departures: Cycles) -> Movement:
        """A beat that completes a result waits for room, as does one behind a rest."""
        come, last = met(arrivals), np.array(self.last)
        rows = come.size // self.row
        completing = np.arange(0, come.size, self.row)[:, None] + last
        results = np.arange(rows * last.size).reshape(rows, -1)
        # A rest at the end of the last row keeps nobody waiting.
        kept = completing < come.size
        free = np.full(come.size, -1)
        room = behind(departures, 3) + 1
        np.maximum.at(free, completing[kept], room[results[kept]])
        consumed = one_per_cycle(np.maximum(come, free))
        within = np.minimum(last, self.row - 1)
        made = consumed.reshape(rows, self.row)[:, within] + (last == self.row)
        stored = np.maximum(made.reshape(-1), room)
        offered = np.maximum(stored + 2, behind(departures) + 1)
        return Movement(dict.fromkeys(arrivals, consumed), offered)


@dataclass(frozen=True)
class Chain(Motion):
    """Motions one behind another, within one cell."""

    motions: tuple[Motion, ...]

    def offered(self, arrivals: Arrivals) -> Cycles:
        offered = self.motions[0].offered(arrivals)
        for motion in self.motions[1:]:
            offered = motion.offered({"": offered})
        return offered

    def consumed(self, arrivals: Arrivals) -> dict[str, Cycles]:
        return self.motions[0].consumed(arrivals)

    def needs(self, port: str, beats: int) -> Cycles:
        needs = np.arange(beats)
        for motion in self.motions:
            needs = through(motion.needs(port, needs.size), needs)
        return needs

    def room(self, port: str, beats: int) -> Cycles:
        rooms = []
        for motion in self.motions:
            rooms.append(motion.room(port, beats))
            beats = motion.needs(port, beats).size
        return follow(rooms)

    @property
    def stages(self) -> tuple[Motion, ...]:
        return tuple(stage for motion in self.motions for stage in motion.stages)

    @property
    def lag(self) -> int:
        return sum(motion.lag for motion in self.motions)

    def interleaving(self, port: str, other: str, beats: int) -> tuple[Cycles, Cycles] | None:
        return self.motions[0].interleaving(port, other, beats)

    def under_pressure(self, arrivals: Arrivals, departures: Cycles) -> Movement:
        """Each stage as the one behind it lets it, until all agree."""
        stages, given = [], arrivals
        for stage in self.stages:
            stages.append(Movement(stage.consumed(given), stage.offered(given)))
            given = {"": stages[-1].offered}
        settled = False
        while not settled:
            settled, given = True, arrivals
            for place, stage in enumerate(self.stages):
                last = place == len(stages) - 1
                to = departures if last else stages[place + 1].consumed[""]
                found = stage.under_pressure(given, to)
                settled = settled and found.same(stages[place])
                stages[place], given = found, {"": found.offered}
        return Movement(stages[0].consumed, stages[-1].offered)


def stored(
    arrivals: Arrivals,
    departures: Cycles,
    needs: Cycles,
    room: Cycles,
    latency: int = 1,
    start: int = 0,
    delay: int = 1,
) -> Movement:
    """Return when beats move through a memory, and through what lies behind it.

    A result is read `delay` cycles after the last beat that it needs was stored, when there is room
    for it behind: a register that its consumer empties, or a pipeline that never stops (`Steps`). A
    place is free the cycle after its last read. Beats first enter as if there were room for all;
    what is then read late holds them up, until nothing changes.

    Args:
        arrivals: when beats are offered.
        departures: when results depart.
        needs: the last beat that each result needs.
        room: the result that must have been read before each beat, in order; negative for none.
        latency: cycles from when a result is read to when it is offered; 1 for a register.
        start: the first cycle in which a result is read.
        delay: cycles from when the last beat that a result needs is stored to when it may be read.
    """
    free = behind(departures) if latency == 1 else behind(departures, Steps(latency).depth) + 1
    free = np.maximum(free, start)
    come = met(arrivals)
    awaits = room >= 0
    consumed, settled = come, False
    while not settled:
        read = one_per_cycle(np.maximum(free, consumed[needs] + delay))
        entered = come.copy()
        entered[awaits] = np.maximum(entered[awaits], read[room[awaits]] + 1)
        entered = one_per_cycle(entered)
        consumed, settled = entered, np.array_equal(entered, consumed)
    offered = read + 1 if latency == 1 else np.maximum(read + latency, behind(departures) + 1)
    return Movement(dict.fromkeys(arrivals, consumed), offered)


def through(last: Cycles, needs: Cycles) -> Cycles:
    """Beats of another stream that beats need; negative for none.

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
