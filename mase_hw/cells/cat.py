"""Two streams one after the other, round by round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mase_hw.cells._base import Cell, Origin, Origins, Port, fact
from mase_hw.cells._components import Compare, Components, Gates, Mux, Pointer, Register
from mase_hw.cells._motion import Arrivals, Motion, Movement, behind
from mase_hw.cells._pipeline import stream_register
from mase_hw.formats import Encoding
from mase_hw.geometry.beats import Cycles, one_per_cycle

# A result is made when the one so many before it has departed: those between are stored.
STORED = 3


@dataclass(frozen=True)
class Merge(Motion):
    """A beat is consumed when the beat of the result that begins with it is made.

    Attributes:
        places: for each beat of a round of each input, the beat of the result's round that takes
            it.
        beats: beats of the result in a round.
        awaited: the input that a round waits for to begin; empty for none.
    """

    places: Mapping[str, range]
    beats: int
    awaited: str = ""

    def offered(self, arrivals: Arrivals) -> Cycles:
        return self._made(arrivals) + 2

    def consumed(self, arrivals: Arrivals) -> dict[str, Cycles]:
        made = self._made(arrivals)
        return {name: made[self._takers(name, times.size)] for name, times in arrivals.items()}

    def needs(self, port: str, beats: int) -> Cycles:
        """The last beat that went into a result, or into one before; a round's first, if awaited.

        Results before the first need none.
        """
        needs = np.full(beats // len(self.places[port]) * self.beats, -1)
        needs[self._takers(port, beats)] = np.arange(beats)
        if port == self.awaited:
            needs[:: self.beats] = np.arange(0, beats, len(self.places[port]))
        return np.maximum.accumulate(needs)

    def room(self, port: str, beats: int) -> Cycles:
        """The result three before the one that takes it: those before it are stored.

        A beat that is awaited counts as consumed when its round begins: its results wait for it.
        """
        room: Cycles = np.searchsorted(self.needs(port, beats), np.arange(beats)) - STORED
        return room

    @property
    def lag(self) -> int:
        return 2

    def needs_of(self, port: str, beats: int, results: Cycles) -> Cycles:
        """What `needs` says: the last beat that went into a result, or into one before."""
        rounds, place = np.divmod(results, self.beats)
        last = np.searchsorted(np.array(self.places[port]), place, side="right") - 1
        if port == self.awaited:
            last = np.maximum(last, 0)
        needs: Cycles = rounds * len(self.places[port]) + last
        return needs

    def room_of(self, port: str, beats: int, places: Cycles) -> Cycles:
        """The result three before the one that takes it, or before its round, if it is awaited."""
        takers = self.taker_of(port, places)
        if port == self.awaited:
            rounds, place = np.divmod(places, len(self.places[port]))
            takers = np.where(place == 0, rounds * self.beats, takers)
        room: Cycles = takers - STORED
        return room

    def taker_of(self, port: str, places: Cycles) -> Cycles:
        """The beat of the result that it becomes a part of."""
        own = np.array(self.places[port])
        rounds, place = np.divmod(places, own.size)
        takers: Cycles = rounds * self.beats + own[place]
        return takers

    def interleaving(self, port: str, other: str, beats: int) -> tuple[Cycles, Cycles]:
        """The last one that went into a result before, and the one that goes into the same."""
        rounds, place = np.divmod(self._takers(port, beats), self.beats)
        own = np.array(self.places[other])
        before, behind = (np.searchsorted(own, place, side=side) for side in ("left", "right"))
        first = rounds * own.size
        return first + before - 1, np.where(behind > before, first + before, -1)

    def under_pressure(self, arrivals: Arrivals, departures: Cycles) -> Movement:
        """A beat of the result is made when there is room to store it."""
        made = one_per_cycle(np.maximum(self._made(arrivals), behind(departures, STORED) + 1))
        consumed = {name: made[self._takers(name, times.size)] for name, times in arrivals.items()}
        return Movement(consumed, np.maximum(made + 2, behind(departures) + 1))

    def _made(self, arrivals: Arrivals) -> Cycles:
        """Return when each beat of the result enters the output register."""
        name, times = next(iter(arrivals.items()))
        needed = np.zeros((times.size // len(self.places[name]), self.beats), dtype=np.int64)
        for name, times in arrivals.items():
            np.maximum.at(needed.reshape(-1), self._takers(name, times.size), times)
        if self.awaited in arrivals:
            first = arrivals[self.awaited].reshape(len(needed), -1)[:, :1]
            needed = np.maximum(needed, first)
        return one_per_cycle(needed.reshape(-1))

    def _takers(self, port: str, beats: int) -> Cycles:
        """Return, for each beat of an input, the beat of the result that takes it."""
        return self.taker_of(port, np.arange(beats))


@dataclass(frozen=True)
class Cat(Cell):
    """Rounds of beats of the first stream, and then of the second.

    Attributes:
        width: bits of an element.
        lanes: elements of a beat.
        beats_0: beats of the first stream in a round.
        beats_1: beats of the second one.
        beats: beats of the result in a round.
        shift: lanes of the first stream's last beat, where the second one's begin; 0 for all.
        wait: whether a round begins when the second is there: the first is constant.
        rounds: rounds of one inference.
    """

    width: int
    lanes: int
    beats_0: int
    beats_1: int
    beats: int
    shift: int = 0
    wait: bool = False
    rounds: int = fact(1)

    def _port(self, beats: int) -> Port:
        return Port.elements(Encoding(self.width), self.lanes, self.rounds * beats)

    @property
    def inputs(self) -> Mapping[str, Port]:
        return {"data_in_0": self._port(self.beats_0), "data_in_1": self._port(self.beats_1)}

    @property
    def outputs(self) -> Mapping[str, Port]:
        return {"data_out_0": self._port(self.beats)}

    @property
    def motion(self) -> Motion:
        first = self.beats_0 - (self.shift > 0)
        places = {
            "data_in_0": range(self.beats_0),
            "data_in_1": range(first, first + self.beats_1),
        }
        return Merge(places, self.beats, "data_in_1" if self.wait else "")

    @property
    def components(self) -> Components:
        """A choice of the streams, what counts beats, and a register of a stream."""
        bits = self.width * self.lanes
        count = (self.beats_0 + self.beats_1).bit_length()
        control = Components.of(
            Pointer(count), (Compare(count, constant=True), 4), Gates(5, levels=3)
        )
        joined = Components.of(Mux(3 if self.shift else 2, bits), Register(self.shift * self.width))
        return control + joined + stream_register(bits)

    @property
    def origins(self) -> Origins:
        """The lanes of the first stream, and then those of the second."""
        first = (self.beats_0 - 1) * self.lanes + (self.shift or self.lanes)
        rows: list[list[Origin | None]] = []
        for number in range(self.rounds):
            lanes: list[Origin | None] = [
                *(
                    self._origin("data_in_0", number * self.beats_0, place)
                    for place in range(first)
                ),
                *(
                    self._origin("data_in_1", number * self.beats_1, place)
                    for place in range(self.beats_1 * self.lanes)
                ),
            ]
            lanes += [None] * (self.beats * self.lanes)
            rows += [lanes[beat * self.lanes :][: self.lanes] for beat in range(self.beats)]
        return rows

    def _origin(self, port: str, beats: int, place: int) -> Origin:
        return Origin(port, beats + place // self.lanes, place % self.lanes)

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """Whole beats, a beat of both, one that the rest needs, and a first that is constant."""
        shifted = cls(5, 3, 2, 2, 4, 2, rounds=3)
        return (
            cls(5, 2, 1, 3, 4, rounds=3),
            shifted,
            replace(shifted, beats=3, shift=1),
            replace(shifted, wait=True),
        )

    @classmethod
    def proofs(cls) -> Sequence[Cell]:
        """The samples with fewer bits, in rounds one by one."""
        return [replace(cell, width=1, rounds=1) for cell in cls.samples() if isinstance(cell, cls)]
