"""External memory: addresses of constants, cycles to read them, and arrival of their words.

Each source reads its region again and again, in bursts that it asks for as soon as its buffer has
room; the port serves the sources in turn. The model of the memory accepts a burst in every cycle,
answers in order, the first beat `latency_cycles` after it was asked for, and at most one beat
every `cycles_per_beat`. `Fetch` replays the modules `mase_axi_source` and `mase_axi_read_port`
against it, cycle by cycle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

import numpy as np

from mase_hw._kinds import Table
from mase_hw.cells import Netlist, Replay, Steps
from mase_hw.errors import ConfigError
from mase_hw.geometry.beats import Cycles
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.memory import PAGE_BYTES, MemoryPort
from mase_hw.graph.nodes import metadata
from mase_hw.ops import Call, Weighted

INTERFACE = "AXI"
# Cycles from a place that falls free in a buffer to the first beat that takes it, latency aside.
TURNAROUND_CYCLES = 5
# Cycles from the last beat of a burst to the burst that takes its turn, latency aside.
REQUEST_CYCLES = 2
MAX_BYTES = 1 << 32
NEVER = 1 << 62
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
        ConfigError: when the constants do not fit behind the port's addresses.
    """
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
                        call, mg.netlist(node), operand, port, -(-end // PAGE_BYTES) * PAGE_BYTES
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


def _region(call: Call, netlist: Netlist, operand: str, port: MemoryPort, offset: int) -> Region:
    source = netlist.source(operand)
    width_bits, words = source.port.width_bits, source.depth
    uses = Weighted.of(call.operator).repeats(call)[operand]
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
        read: when each word leaves for the operator, as far as that is known.
        needed: beats of one inference; what follows is fetched ahead while there is room.
        requested: beats asked for.
        cut: when each beat left the buffer and was cut into words.
        offered: when the last beat came into the register where it is offered.
        turn: earliest cycle of its next request.
    """

    region: Region
    read: list[int]
    needed: int
    requested: int = 0
    cut: list[int] = field(default_factory=list)
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

    def take(self, arrival: int, step: int, port: MemoryPort) -> int:
        """Take the next burst, whose first beat comes at `arrival`; return when its last does."""
        region, read, cut = self.region, self.read, self.cut
        last_cut, offered, time = cut[-1] if cut else -1, self.offered, arrival - step
        turn, place = divmod(self.requested, region.beats)
        width, last = port.data_width, place + self.burst()
        for bits in range(place * width, last * width, width):
            time += step
            complete = turn * region.words + bits // region.width_bits
            # In the first register when the beat before comes into the second, or else in both at
            # once, which move when the beat before leaves, or stand empty.
            offered = last_cut + 1 if time + 2 <= offered else max(time + 1, last_cut) + 2
            last_cut = max(offered, read[complete - 1] if complete else 0)
            cut.append(last_cut)
        self.requested, self.offered = len(cut), offered
        return time


def deliver(memory: ExternalMemory, consumed: Mapping[Place, Cycles]) -> dict[Place, Cycles]:
    """Return when each word of every source is offered, given when words are consumed.

    Args:
        memory: the port and its regions.
        consumed: for each (node, operand), when each word of one inference is consumed. What is
            offered later than that says that it cannot be.
    """
    port, step = memory.port, memory.port.cycles_per_beat
    sources = [
        _Source(item, _read(item, consumed[item.node, item.operand]), item.rounds * item.beats)
        for item in memory.regions
    ]
    ended: list[int] = []
    cycle, last_beat, turn = -1, -step, 0
    possible = [item.earliest() for item in sources]
    missing = sum(item.needed > 0 for item in sources)
    while missing:
        cycle = max(cycle + 1, min(possible))
        if len(ended) >= port.outstanding:
            cycle = max(cycle, ended[-port.outstanding] + 1)
        ready = [number for number, first in enumerate(possible) if first <= cycle]
        chosen = min(ready, key=lambda number: (number < turn, number))
        source, turn = sources[chosen], chosen + 1
        arrival = max(cycle + 1 + port.latency_cycles, last_beat + step)
        before = source.requested < source.needed
        last_beat = source.take(arrival, step, port)
        missing -= before and source.requested >= source.needed
        source.turn = cycle + 1
        possible[chosen] = source.earliest()
        ended.append(last_beat)
    return {(item.region.node, item.region.operand): _offered(item, port) for item in sources}


def _read(region: Region, consumed: Cycles) -> list[int]:
    """Return when words leave the gearbox: when they are consumed, or stored to be repeated.

    Words of the next inference leave never, but for rounds that are stored ahead: one beside the
    first, and one in its place, when the last word of that was read for the last time.
    """
    ahead = region.words * (2 + -(-region.buffer_beats // region.beats))
    if region.repeats == 1:
        found: list[int] = consumed.tolist()
        return found + ahead * [NEVER]
    behind = Steps(REPLAY.latency).depth
    last_read = int(consumed[-behind - 1]) + 1 if consumed.size > behind else 0
    return 2 * region.words * [0] + region.words * [last_read + 1] + ahead * [NEVER]


def _offered(source: _Source, port: MemoryPort) -> Cycles:
    """Return when each word of one inference is offered, from when beats were cut."""
    region = source.region
    last = -(-np.arange(1, region.words + 1) * region.width_bits // port.data_width) - 1
    words = np.array(source.cut[: source.needed]).reshape(-1, region.beats)[:, last] + 1
    if region.repeats == 1:
        return words.reshape(-1)
    shape = (len(words), region.repeats, region.words)
    offered = words + 1 + REPLAY.latency
    return np.broadcast_to(offered[:, None], shape).reshape(-1)
