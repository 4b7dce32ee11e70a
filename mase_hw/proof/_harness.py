"""The properties of a cell as a SystemVerilog module around its own.

They follow from what the cell says of itself: its ports, its motion and the origins of its results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from mase_hw._resources import template_environment
from mase_hw.cells import Cell, Origin, Port, Steps, Value, met
from mase_hw.cells.cat import STORED, Merge
from mase_hw.formats import Encoding
from mase_hw.timing.bounds import streams

TOP = "proof"
# Inferences of the runs that bounds of time are measured in, at least and at most; and how often
# they fill the cell.
INFERENCES, MOST_INFERENCES, FILLED = 6, 1 << 12, 3
# Until what is due of two inputs that take turns is taken, where both are there.
TURN_CYCLES = 3
# Cycles in which whatever is held moves as far as it can.
LONG = 1000
# Most cycles between the beats of an input.
PACES = (1, 2, 5, 60)
# Times that each of them is tried: what waits longest may come together rarely.
RUNS = 16


@dataclass(frozen=True)
class ProofPort:
    """A stream of the cell.

    Attributes:
        name: of the port.
        port: the port.
        needs: for an input, the last beat that each result needs; empty where none is known.
        waits: for an input, the result that must have departed before each beat, likewise.
        wait: cycles until a beat is taken for which there is room.
        lanes: lanes that are told apart.
        leader: the input that it moves with, if any.
        at_once: whether results come of a beat that is offered and not taken.
        held: inferences that the cell holds beats of, and more.
    """

    name: str
    port: Port
    needs: tuple[int, ...] = ()
    waits: tuple[int, ...] = ()
    wait: int = 0
    lanes: int = 1
    leader: str = ""
    at_once: bool = False
    held: int = 0

    @property
    def width_bits(self) -> int:
        """Bits of a beat."""
        return self.port.width_bits

    @property
    def beats(self) -> int:
        """Beats of an inference."""
        return self.port.beats

    @property
    def beat_bits(self) -> int:
        """Bits of a count of beats."""
        return index_bits(self.port.beats)

    @property
    def owed(self) -> int:
        """Results that need no beat."""
        return sum(beat < 0 for beat in self.needs)

    @property
    def more(self) -> list[int]:
        """With each beat, how many results have what they need."""
        results = [0] * self.port.beats if self.needs else []
        for beat in np.maximum.accumulate(self.needs).tolist():
            results[beat] += 1
        return results

    @property
    def owed_bits(self) -> int:
        """Bits of a count of results that may leave."""
        return (self.owed + len(self.needs) * self.held).bit_length()

    @property
    def room(self) -> int:
        """Beats that there is room for when nothing has departed."""
        results = len(self.needs)
        return sum(-(place // results) for place in self.waits)

    @property
    def free(self) -> list[int]:
        """With each result that goes, how many beats more there is room for."""
        results = len(self.needs)
        beats = [0] * results if self.waits else []
        for place in self.waits:
            beats[place % results] += 1
        return beats

    @property
    def room_bits(self) -> int:
        """Bits of a count of beats that there is room for, or that came beyond that."""
        return max(self.room + sum(self.free), self.held * self.beats).bit_length()

    @property
    def wait_bits(self) -> int:
        """Bits of a count of cycles beyond the bound."""
        return (self.wait + 1).bit_length()

    @property
    def lane_bits(self) -> int:
        """Bits of a lane."""
        return self.width_bits // self.lanes


@dataclass(frozen=True)
class Spot:
    """A lane of a result that is followed.

    Attributes:
        beat: of the result.
        lane: of the result.
        port: number of the input that it comes from, from 1; 0 for a constant.
        from_beat: of the input.
        from_lane: of the input.
        above: bits beside those of the input's lane.
    """

    beat: int
    lane: int
    port: int
    from_beat: int
    from_lane: int
    above: int


class Proof:
    """What the template asks for.

    Args:
        cell: the cell; it has one result.
        files: the file of each memory image, by parameter.
    """

    top = TOP

    def __init__(self, cell: Cell, files: Mapping[str, str]) -> None:
        self.cell, self.module = cell, cell.module
        self.parameters = [
            *((name, expression(value)) for name, value in cell.arguments.items()),
            *((name, f'"{file}"') for name, file in files.items()),
        ]
        ((name, port),) = cell.outputs.items()
        self.output = ProofPort(name, port)
        self.is_wire = isinstance(cell.motion, Steps) and not cell.motion.latency
        most = held(cell)
        self.late, waits = bounds(cell, max(INFERENCES, FILLED * most))
        motion = cell.motion
        self.whole = self.output_lanes == 1
        # Constants that are always on offer, and that nothing waits for.
        self.steady = list(cell.inputs)[1:] if getattr(cell, "steady", False) else []
        if isinstance(motion, Merge) and motion.awaited:
            self.steady = [port for port in cell.inputs if port != motion.awaited]
        # Those whose beats are the same for all of an inference.
        self.lasting = getattr(cell, "lasting", ())
        self.inputs = [
            ProofPort(
                port,
                item,
                self._needs(port, item),
                self._room(port, item),
                waits.get(port, 0),
                1 if self.whole else item.fields[0].lanes,
                self._leader(port),
                self.is_wire or (isinstance(motion, Merge) and motion.awaited == port),
            )
            for port, item in cell.inputs.items()
            if item.beats
        ]
        # A cell may hold more than what it is sure to have room for.
        sure = max(2 * (port.room + sum(port.free)) // port.beats for port in self.inputs)
        self.inputs = [replace(port, held=max(sure, most) + 4) for port in self.inputs]

    def _leader(self, port: str) -> str:
        moving = streams(self.cell)
        alone = isinstance(self.cell.motion, Merge) or port not in moving[1:]
        return "" if alone else moving[0]

    def _needs(self, port: str, item: Port) -> tuple[int, ...]:
        if self._leader(port):
            return ()
        if port in streams(self.cell):
            return tuple(self.cell.motion.needs(port, item.beats).tolist())
        # A constant for each result.
        return tuple(range(item.beats)) if item.beats == self.output.beats else ()

    def _room(self, port: str, item: Port) -> tuple[int, ...]:
        if self._leader(port) or port not in streams(self.cell):
            return ()
        motion = self.cell.motion
        if isinstance(motion, Merge) and port == motion.awaited:
            # It is offered when its round begins, and taken later.
            return tuple((motion.taker_of(port, np.arange(item.beats)) - STORED).tolist())
        return tuple(motion.room(port, item.beats).tolist())

    @property
    def connections(self) -> list[tuple[str, str]]:
        """Ports of the module and the nets on them."""
        return self.connections_of()

    def connections_of(self, copy: str = "") -> list[tuple[str, str]]:
        """Return the ports of the module and the nets on them.

        Args:
            copy: of several copies, which one: what it drives is called after it.
        """
        own = f"{copy}_" if copy else ""
        connections = []
        for name, port in {**self.cell.inputs, **self.cell.outputs}.items():
            result = name in self.cell.outputs
            if not port.beats:
                connections += [(name, "'0"), (f"{name}_valid", "1'b1"), (f"{name}_ready", "")]
                connections += [(f"{name}{suffix}", "'0") for suffix in port.optional]
                continue
            connections += [
                (f"{name}{end}", f"{own if driven else ''}{name}{end}")
                for end, driven in (("_valid", result), ("_ready", not result))
            ]
            net = f"{own if result else ''}{name}"
            if port.packed:
                connections.append((name, net))
                continue
            low = 0
            for item in port.fields:
                bits = item.lanes * item.width_bits
                connections.append((f"{name}{item.suffix}", f"{net}[{low}+:{bits}]"))
                low += bits
            connections += [(f"{name}{suffix}", "" if result else "'0") for suffix in port.optional]
        return connections + [(name, "") for name in self.cell.unread]

    @property
    def result_bits(self) -> int:
        """Bits of a count of results."""
        return self.output.beat_bits

    @cached_property
    def ahead_bits(self) -> int:
        """Bits of how many inferences an input is ahead of the results, with a sign."""
        return max(port.held for port in self.inputs).bit_length() + 1

    @property
    def earlier_bits(self) -> int:
        """Bits of how many results are earlier than one that is followed, with a sign."""
        return (max(port.held for port in self.inputs) * self.output.beats).bit_length() + 1

    @property
    def late_bits(self) -> int:
        """Bits of a count of cycles beyond the bound."""
        return (self.late + 1).bit_length()

    @property
    def enough(self) -> str:
        """Whether all inputs have what the next result needs."""
        return " && ".join(f"{port.name}_enough" for port in self.inputs if port.needs)

    @property
    def all_valid(self) -> str:
        """Whether all inputs offer a beat."""
        return " && ".join(f"{port.name}_valid" for port in self.inputs)

    def served(self, port: ProofPort) -> str:
        """Whether no result of what an input brought waits for a constant."""
        constants = [item for item in self.inputs if item.needs and not item.waits]
        conditions = [f"{item.name}_owed_q >= {port.name}_owed_q" for item in constants]
        return "".join(f" && {text}" for text in conditions)

    @cached_property
    def spots(self) -> list[Spot]:
        """The lanes of the results of which it is known what they show."""
        numbers = {port.name: number for number, port in enumerate(self.inputs, 1)}
        spots = []
        for beat, row in enumerate(self.cell.origins or ()):
            for lane, origin in enumerate(row):
                if isinstance(origin, Origin):
                    place = numbers[origin.port], origin.beat, origin.lane
                    spots.append(Spot(beat, lane, *place, origin.above))
                elif origin is not None:
                    spots.append(Spot(beat, lane, 0, 0, 0, origin))
        return spots

    @property
    def has_constants(self) -> bool:
        """Whether a lane shows a constant."""
        return any(not spot.port for spot in self.spots)

    @property
    def spot_bits(self) -> int:
        """Bits of the number of a spot."""
        return index_bits(len(self.spots))

    @property
    def output_lanes(self) -> int:
        """Lanes of a result."""
        return len((self.cell.origins or [[]])[0])

    @property
    def lane_bits(self) -> int:
        """Bits of a lane of a result."""
        return self.output.width_bits // self.output_lanes

    @property
    def text(self) -> str:
        """SystemVerilog of the module around the cell."""
        return self._rendered("cell")

    @property
    def start_text(self) -> str:
        """The module of two copies, which a reset makes the same."""
        return self._rendered("start")

    def _rendered(self, name: str) -> str:
        return template_environment().get_template(f"proof/{name}.sv.j2").render(proof=self)


def expression(value: Value) -> str:
    """Return a parameter as SystemVerilog."""
    if isinstance(value, Encoding):
        return value.expression
    return str(int(value)) if isinstance(value, bool | int) else f"mase_pkg::{value.value}"  # type: ignore[union-attr]


def index_bits(count: int) -> int:
    """Return the bits of an index below `count`, at least one."""
    return max(1, (count - 1).bit_length())


def held(cell: Cell) -> int:
    """Return how many inferences, begun ones too, enter a cell that no result leaves."""
    beats_of = {port: cell.inputs[port].beats for port in streams(cell)}
    ((_, result),) = cell.outputs.items()
    count = INFERENCES
    while True:
        come = {port: np.arange(beats * count) for port, beats in beats_of.items()}
        departures = np.arange(result.beats * count) + LONG * count
        taken = cell.motion.under_pressure(come, departures).consumed
        entered = {port: int((taken[port] < LONG * count).sum()) for port in beats_of}
        if count > MOST_INFERENCES or any(entered[port] < come[port].size for port in beats_of):
            return max(-(-entered[port] // beats) for port, beats in beats_of.items())
        count *= 2


def bounds(cell: Cell, inferences: int) -> tuple[int, dict[str, int]]:
    """Return how many cycles a result is late at most, and how long a beat of each input waits.

    They are measured in what the motion says of so many inferences, at several paces.
    """
    beats_of = {port: cell.inputs[port].beats for port in streams(cell)}
    ((_, result),) = cell.outputs.items()
    starts = np.arange(inferences)[:, None]
    late, waits = 0, dict.fromkeys(beats_of, 0)
    awaited = cell.motion.awaited if isinstance(cell.motion, Merge) else ""
    for seed, pace in enumerate(PACES * RUNS):
        chance = np.random.default_rng(seed)
        come = {
            port: np.cumsum(chance.integers(1, pace + 1, beats * inferences)) - 1
            for port, beats in beats_of.items()
        }
        offered, taken = cell.motion.offered(come), cell.motion.consumed(come)
        due = np.append(-1, offered[:-1])
        for port, beats in beats_of.items():
            needs = (starts * beats + cell.motion.needs(port, beats)).reshape(-1)
            # What is awaited counts when it is offered, the cycle before.
            came = come[port] - 1 if port == awaited else taken[port]
            due = np.maximum(due, np.where(needs >= 0, came[needs], -1))
        # To a consumer that is always ready, and to one that takes nothing for long.
        for departures in (offered, offered + come[next(iter(beats_of))].max() + LONG):
            moved = cell.motion.under_pressure(come, departures).consumed
            for port, beats in beats_of.items():
                room = (starts * result.beats + cell.motion.room(port, beats)).reshape(-1)
                free = np.where(room >= 0, departures[np.clip(room, 0, departures.size - 1)], -1)
                same = len(set(beats_of.values())) == 1
                ready = np.maximum(met(come) if same else come[port], free + 1)
                ready[1:] = np.maximum(ready[1:], moved[port][:-1] + 1)
                waits[port] = max(waits[port], int((moved[port] - ready).max()))
        late = max(late, int((offered - due).max()) - 1)
    if isinstance(cell.motion, Merge):
        # The results before may wait for beats of the other one.
        waits = dict.fromkeys(beats_of, TURN_CYCLES)
    return max(late, 0), waits
