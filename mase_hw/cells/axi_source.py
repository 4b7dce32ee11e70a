"""A constant operand that is read from an external memory, round after round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import gcd

from mase_hw.cells._base import Cell, Port
from mase_hw.cells._components import Adder, Compare, Components, Counter, Gates, Mux, Register
from mase_hw.cells._motion import Motion, Steps
from mase_hw.cells._pipeline import index_bits, result_queue
from mase_hw.cells.stream_replay import StreamReplay


@dataclass(frozen=True)
class AxiSource(Cell):
    """A reader of one region, with its double buffer.

    When its words come, the model of the shared port says (`mase_hw.timing.memory`).

    Attributes:
        port: the stream of words.
        number: its place among the sources of the port.
        words: words of the region.
        repeats: how often a round of words is sent each time that it was read.
        data_width: bits of a beat of the port.
        address_width: bits of an address.
        offset: first byte of the region.
        burst_beats: beats of a burst.
        buffer_beats: beats of both halves of the buffer.
    """

    port: Port
    number: int
    words: int
    repeats: int
    data_width: int
    address_width: int
    offset: int
    burst_beats: int
    buffer_beats: int

    @property
    def inputs(self) -> Mapping[str, Port]:
        """None: beats come through the shared port."""
        return {}

    @property
    def outputs(self) -> Mapping[str, Port]:
        return {"data_out": replace(self.port, packed=True)}

    @property
    def parameters(self) -> Mapping[str, int]:
        given = super().parameters
        return {
            "WIDTH": self.port.width_bits,
            **{name: int(value) for name, value in given.items() if name != "NUMBER"},  # type: ignore[arg-type]
        }

    @property
    def signals(self) -> Mapping[str, str]:
        """Its lane of the shared port."""
        lane = f"[{self.number}]"
        requests = ("request_offset", "request_length", "request_valid", "request_ready")
        return {
            **{name: f"external_{name}{lane}" for name in requests},
            "beat": "external_beat",
            "beat_valid": f"external_beat_valid{lane}",
        }

    @property
    def components(self) -> Components:
        """What asks for bursts, the buffer, what cuts beats into words, and a replay."""
        width, given = self.port.width_bits, self.data_width
        beats = -(-self.words * width // given)
        bursts = -(-beats // self.burst_beats)
        places, count = self.buffer_beats + 1, index_bits(bursts)
        credit = places.bit_length()
        asks = Components.of(
            (Adder(credit, gated=True), 2),
            Compare(credit),
            Counter(count),
            Gates(4),
            Register(credit - 1),
        )
        unit = gcd(given, width)
        enter, leave = given // unit, width // unit
        capacity = enter + leave - 1
        level = capacity.bit_length()
        gearbox = Components.of(
            Register(capacity * unit + level),
            Counter(index_bits(self.words)),
            (Adder(level, gated=True), 2),
            Gates(level + 4 + leave),
            Mux(min(leave, 4) + 2, capacity * unit),
        )
        components = asks + gearbox + result_queue(given, places + 1, registers=2)
        if self.repeats > 1:
            port = replace(self.port, beats=self.words)
            components += StreamReplay(port, self.words, self.repeats).components
        return components

    @property
    def motion(self) -> Motion:
        return Steps(0)

    @property
    def busy_cycles(self) -> int:
        """The port's, which all sources share."""
        return 0
