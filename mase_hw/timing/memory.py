"""External memory: addresses of constants, cycles to read them, and arrival of their words.

Each source reads its region again and again, in bursts that it asks for as soon as its buffer has
room; the port serves the sources in turn. The model of the memory accepts a burst in every cycle,
answers in order, the first beat `latency_cycles` after it was asked for, and at most one beat
every `cycles_per_beat`. `Delivery` replays the modules `mase_axi_source` and `mase_axi_read_port`
against it, burst by burst.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from mase_hw._kinds import Table
from mase_hw.cells import Netlist, Replay, Steps
from mase_hw.cells.layer_source import LayerSource
from mase_hw.errors import ConfigError
from mase_hw.geometry.beats import Cycles
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.memory import PAGE_BYTES, MemoryPort
from mase_hw.graph.nodes import metadata
from mase_hw.graph.physical import physical
from mase_hw.ops import Call, Weighted

INTERFACE = "AXI"
# Cycles from a place that falls free in a buffer to the first beat that takes it, latency aside.
TURNAROUND_CYCLES = 5
# Cycles from the last beat of a burst to the burst that takes its turn, latency aside.
REQUEST_CYCLES = 2
MAX_BYTES = 1 << 32
NEVER = 1 << 62
# Bursts between moments that a delivery can go back to.
MOMENT_BURSTS = 16
# What repeats the words of a region.
REPLAY = Replay(1, 2)

Place = tuple[str, str]


@dataclass(frozen=True)
class Region:
    """A constant in the memory, and the source that reads it.

    Attributes:
        node: graph node.
        operand: its operand.
        offset: first byte, from the base address; a multiple of 4096.
        bytes: whole beats.
        width_bits: bits of a word, one beat of the operand's stream; words follow without gaps.
        words: words of the region.
        repeats: how often a round of words is streamed each time that it was read.
        rounds: how often one inference reads it.
        beats: beats of the port that hold it.
        burst_beats: beats of a burst.
        buffer_beats: beats that the source stores: two halves, of which one covers the latency.
    """

    node: str
    operand: str
    offset: int
    bytes: int
    width_bits: int
    words: int
    repeats: int
    rounds: int
    beats: int
    burst_beats: int
    buffer_beats: int

    @property
    def bursts(self) -> int:
        """Bursts of one round."""
        return -(-self.beats // self.burst_beats)


@dataclass(frozen=True)
class ExternalMemory:
    """One AXI4 read port and the regions behind it.

    Attributes:
        port: the port.
        regions: in the order of the graph, which is the order of their IDs.
    """

    port: MemoryPort
    regions: tuple[Region, ...]

    @property
    def bytes(self) -> int:
        """Bytes of the image."""
        last = self.regions[-1]
        return last.offset + last.bytes

    @property
    def file(self) -> str:
        """Path of the image below the project folder."""
        return "mem/external.bin"

    @property
    def id_width(self) -> int:
        """Bits of an ID."""
        return max(1, (len(self.regions) - 1).bit_length())

    @property
    def beats(self) -> int:
        """Beats that one inference reads."""
        return sum(item.rounds * item.beats for item in self.regions)

    @property
    def cycles(self) -> int:
        """Cycles for which one inference keeps the port busy.

        Beats move at the memory's rate, unless too few bursts may be on their way to cover the
        latency; then bursts count with their mean length, and short ones in a row may take a few
        percent more.
        """
        port, step, beats = self.port, self.port.cycles_per_beat, self.beats
        bursts = sum(item.rounds * item.bursts for item in self.regions)
        on_their_way = bursts * (port.latency_cycles + REQUEST_CYCLES - step) + beats * step
        return max(beats * step, -(-on_their_way // port.outstanding))

    def to_dict(self) -> dict[str, object]:
        """Return a JSON-serialisable description, which `from_dict` reads."""
        return {
            "port": "m_axi",
            "file": self.file,
            "bytes": self.bytes,
            "cycles": self.cycles,
            "options": asdict(self.port),
            "regions": [asdict(region) for region in self.regions],
        }

    @classmethod
    def from_dict(cls, entry: Table) -> ExternalMemory:
        """Read what `to_dict` wrote."""
        regions = tuple(Region(**item) for item in entry["regions"])
        return cls(MemoryPort(**entry["options"]), regions)


def external_memory(mg: MaseGraph) -> ExternalMemory | None:
    """Return the memory of a graph with hardware metadata; None where everything lies on chip.

    Raises:
        ConfigError: when the constants do not fit behind the port's addresses, or layers on the
            same hardware take one several times.
    """
    mg = physical(mg)
    regions: list[Region] = []
    port = None
    for node in mg.nodes:
        known = metadata(node).hardware
        if known is None or not known.memory:
            continue
        port, call = MemoryPort(**known.memory), mg.call(node)
        for operand, interface in known.interface.items():
            if interface == INTERFACE:
                end = regions[-1].offset + regions[-1].bytes if regions else 0
                regions.append(
                    _region(
                        call,
                        mg.netlist(node),
                        operand,
                        port,
                        -(-end // PAGE_BYTES) * PAGE_BYTES,
                        mg.rounds(node),
                    )
                )
    if port is None:
        return None
    memory = ExternalMemory(port, tuple(regions))
    if memory.bytes > min(MAX_BYTES, 1 << port.address_width):
        raise ConfigError(
            f"memory: the constants take {memory.bytes:,} bytes; an address of "
            f"{port.address_width} bits reaches {min(MAX_BYTES, 1 << port.address_width):,}"
        )
    return memory


def _region(
    call: Call, netlist: Netlist, operand: str, port: MemoryPort, offset: int, layers: int
) -> Region:
    source = netlist.source(operand)
    width_bits, words = source.port.width_bits, source.depth
    uses = Weighted.of(call.operator).repeats(call)[operand]
    if isinstance(source, LayerSource):
        if uses > 1:
            raise ConfigError(
                f"memory of {call.name}: with reuse, each layer takes its {operand} {uses} times "
                "an inference, and such a constant lies on the chip; give it on-chip, or emit "
                "without reuse"
            )
        words = source.words
    else:
        uses *= layers
    fits = uses > 1 and 2 * words * width_bits <= 8 * port.buffer_bytes
    beats = -(-words * width_bits // port.data_width)
    burst = min(port.burst_beats, 1 << (beats - 1).bit_length())
    covering = -(-(port.latency_cycles + TURNAROUND_CYCLES) // port.cycles_per_beat)
    half = -(-max(covering, burst) // burst) * burst
    return Region(
        node=call.name,
        operand=operand,
        offset=offset,
        bytes=beats * port.beat_bytes,
        width_bits=width_bits,
        words=words,
        repeats=uses if fits else 1,
        rounds=1 if fits else uses,
        beats=beats,
        burst_beats=burst,
        buffer_beats=2 * half,
    )


@dataclass
class _Source:
    """A source at work.

    Attributes:
        region: what it reads.
        needed: beats of all inferences; what follows is fetched ahead while there is room.
        demand: for each word, before when its consumer does not take it, whenever it comes.
        requested: beats asked for.
        cut: when each beat left the buffer and was cut into words.
        left: when each word left for the operator.
        offered: when the last beat came into the register where it is offered.
        turn: earliest cycle of its next request.
    """

    region: Region
    needed: int
    demand: list[int] = field(default_factory=list)
    requested: int = 0
    cut: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    offered: int = -1
    turn: int = 0

    def burst(self) -> int:
        """Return the beats of the next burst."""
        region = self.region
        return min(region.burst_beats, region.beats - self.requested % region.beats)

    def earliest(self) -> int:
        """Return the first cycle in which the next burst has room."""
        # One of the registers behind the buffer counts too.
        needed = self.requested + self.burst() - self.region.buffer_beats - 1
        return max(self.turn, self.cut[needed - 1] + 1) if needed > 0 else self.turn

    def take(self, arrival: int, step: int, words: Sequence[int]) -> int:
        """Take the next burst; return when its last beat comes.

        Args:
            arrival: when its first beat comes.
            step: cycles from one beat to the next.
            words: of the region that are complete before each beat, and behind the last.
        """
        demand, cut, left = self.demand, self.cut, self.left
        last_cut, offered, time = cut[-1] if cut else -1, self.offered, arrival - step
        last_left, complete = left[-1] if left else -1, len(left)
        first = self.requested % self.region.beats
        for place in range(first, first + self.burst()):
            time += step
            # In the first register when the beat before comes into the second, or else in both at
            # once, which move when the beat before leaves, or stand empty.
            offered = last_cut + 1 if time + 2 <= offered else max(time + 1, last_cut) + 2
            last_cut = max(offered, last_left)
            cut.append(last_cut)
            for _ in range(words[place + 1] - words[place]):
                last_left = max(demand[complete], last_cut + 1, last_left + 1)
                left.append(last_left)
                complete += 1
        self.requested, self.offered = len(cut), offered
        return time

    def state(self) -> tuple[int, int, int, int]:
        """Return what `go_back` takes."""
        return self.requested, len(self.left), self.offered, self.turn

    def go_back(self, requested: int, words: int, offered: int, turn: int) -> None:
        """Forget what happened since."""
        del self.cut[requested:], self.left[words:]
        self.requested, self.offered, self.turn = requested, offered, turn


@dataclass(frozen=True)
class _Moment:
    """A moment of the port, between two bursts.

    Attributes:
        cycle: of the last request.
        last_beat: when the last beat comes.
        turn: the source whose turn is next.
        bursts: asked for so far.
        sources: the state of each.
    """

    cycle: int
    last_beat: int
    turn: int
    bursts: int
    sources: tuple[tuple[int, int, int, int], ...]


class Delivery:
    """The words of all sources, and when they come.

    What the port does depends on when words are consumed, and that on when they come. Both are
    computed in turn (`words`), each time from the first word on that is consumed otherwise.

    Args:
        memory: the port and its regions.
        inferences: how many follow each other.
    """

    def __init__(self, memory: ExternalMemory, inferences: int = 1) -> None:
        self._port = memory.port
        self._inferences = inferences
        self._sources = [
            _Source(item, inferences * item.rounds * item.beats) for item in memory.regions
        ]
        self._complete = [_complete(item, memory.port) for item in memory.regions]
        self._ended: list[int] = []
        self._offered: dict[Place, Cycles] = {}
        start = tuple(source.state() for source in self._sources)
        self._moments = [_Moment(-1, -memory.port.cycles_per_beat, 0, 0, start)]

    def words(self, consumed: Mapping[Place, Cycles]) -> dict[Place, Cycles]:
        """Return when each word of every source is offered, given when words are consumed.

        Args:
            consumed: for each (node, operand), when each word of all inferences is consumed, where
                words came as this returned the time before, or always. What is offered later than
                that says that it cannot be.
        """
        alike = []
        for source in self._sources:
            place = source.region.node, source.region.operand
            before = source.demand
            source.demand = _demand(
                source.region, consumed[place], self._offered.get(place), self._inferences
            )
            alike.append(_alike(before, source.demand) if before else 0)
        self._go_back(alike)
        self._go_on()
        self._offered = {
            (source.region.node, source.region.operand): _offered(source, complete)
            for source, complete in zip(self._sources, self._complete, strict=True)
        }
        return self._offered

    def _go_back(self, alike: Sequence[int]) -> None:
        """Forget all that depends on more words than these, which are consumed as before."""
        while any(
            state[1] > same for state, same in zip(self._moments[-1].sources, alike, strict=True)
        ):
            del self._moments[-1]
        for source, state in zip(self._sources, self._moments[-1].sources, strict=True):
            source.go_back(*state)
        del self._ended[self._moments[-1].bursts :]

    def _go_on(self) -> None:
        """Serve the sources until each has its words of all inferences."""
        port, step, sources = self._port, self._port.cycles_per_beat, self._sources
        moment, ended = self._moments[-1], self._ended
        cycle, last_beat, turn = moment.cycle, moment.last_beat, moment.turn
        possible = [item.earliest() for item in sources]
        missing = sum(item.requested < item.needed for item in sources)
        while missing:
            cycle = max(cycle + 1, min(possible))
            if len(ended) >= port.outstanding:
                cycle = max(cycle, ended[-port.outstanding] + 1)
            ready = [number for number, first in enumerate(possible) if first <= cycle]
            chosen = min(ready, key=lambda number: (number < turn, number))
            source, turn = sources[chosen], chosen + 1
            arrival = max(cycle + 1 + port.latency_cycles, last_beat + step)
            before = source.requested < source.needed
            last_beat = source.take(arrival, step, self._complete[chosen])
            missing -= before and source.requested >= source.needed
            source.turn = cycle + 1
            possible[chosen] = source.earliest()
            ended.append(last_beat)
            if len(ended) % MOMENT_BURSTS == 0:
                states = tuple(item.state() for item in sources)
                self._moments.append(_Moment(cycle, last_beat, turn, len(ended), states))


def _complete(region: Region, port: MemoryPort) -> list[int]:
    """Return how many words of a region are complete before each beat, and behind the last."""
    found = [beat * port.data_width // region.width_bits for beat in range(region.beats)]
    return [*found, region.words]


def _alike(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many elements are the same before the first that is not."""
    differ = np.not_equal(one, other)
    return int(differ.argmax()) if differ.any() else len(one)


def _demand(region: Region, consumed: Cycles, offered: Cycles | None, inferences: int) -> list[int]:
    """Return before when words do not leave the gearbox, whenever they come.

    A word that was consumed when it came, or the cycle after the one before it, waits for nothing
    else. What is stored to be repeated waits for room: there is some for one round beside the
    first, and for one in its place, when the last word of that was read for the last time. Words of
    the next inference leave never.
    """
    ahead = region.words * (2 + -(-region.buffer_beats // region.beats))
    if region.repeats == 1:
        waits = np.diff(consumed, prepend=-1) > 1
        if offered is not None:
            waits &= consumed > offered
        found: list[int] = np.where(waits, consumed, 0).tolist()
        return found + ahead * [NEVER]
    behind = Steps(REPLAY.latency).depth
    rounds = consumed.reshape(inferences * region.rounds, -1)
    last_read = rounds[:, -behind - 1] + 2 if rounds.shape[1] > behind else np.ones(len(rounds))
    stored = np.repeat(last_read.astype(np.int64), region.words).tolist()
    return 2 * region.words * [0] + stored + ahead * [NEVER]


def _offered(source: _Source, complete: Sequence[int]) -> Cycles:
    """Return when each word is offered, from when beats were cut."""
    region = source.region
    last = np.searchsorted(complete, np.arange(1, region.words + 1)) - 1
    words = np.array(source.cut[: source.needed]).reshape(-1, region.beats)[:, last] + 1
    if region.repeats == 1:
        return words.reshape(-1)
    shape = (len(words), region.repeats, region.words)
    offered = words + 1 + REPLAY.latency
    return np.broadcast_to(offered[:, None], shape).reshape(-1)
