"""A memory of places that is sent whole, again and again, with another entry each time.

Layers that run on the same hardware have a part of it each, which are sent in turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mase_hw.cells._base import Cell, Port
from mase_hw.cells._components import Compare, Components, Gates, Memory, Mux, Register
from mase_hw.cells._motion import Motion, Steps
from mase_hw.cells._pipeline import counter, index_bits, join, stream_pipeline
from mase_hw.formats import StreamField


@dataclass(frozen=True)
class Cache(Cell):
    """Every beat of the memory, or, at the place that is written, the entry's.

    Each block of the entry comes once for every place.

    Attributes:
        port: the stream that leaves, the beats of all places.
        block: beats of an entry, of one group.
        places: entries of a group.
        groups: matrices of entries; an entry has a block of each.
        position: bits of the number of a place.
        layers: that run on the same hardware.
    """

    port: Port
    block: int
    places: int
    groups: int
    position: int
    layers: int = 1

    def multiplexed(self, others: Sequence[Cell]) -> Cell:
        """Return the same with a part of the memory for each layer."""
        super().multiplexed(others)
        return replace(self, layers=1 + len(others))

    @property
    def inputs(self) -> Mapping[str, Port]:
        """The entry and its place, for every beat that leaves."""
        number = Port((StreamField("", 1, self.position),), self.port.beats, packed=True)
        return {"data_in": self.port, "position": number}

    @property
    def lasting(self) -> tuple[str, ...]:
        """The place is the same for all of an inference."""
        return ("position",)

    @property
    def outputs(self) -> Mapping[str, Port]:
        return {"data_out": self.port}

    @property
    def parameters(self) -> Mapping[str, int]:
        """Bits of a beat and of a place's number, and how many of what."""
        return {
            "WIDTH": self.port.width_bits,
            "BLOCK": self.block,
            "PLACES": self.places,
            "GROUPS": self.groups,
            "POSITION": self.position,
            "LAYERS": self.layers,
        }

    @property
    def motion(self) -> Motion:
        """Which place, the memory, what is sent."""
        return Steps(5)

    @property
    def components(self) -> Components:
        """The memory, what counts its beats and places, which places are written, a pipeline."""
        width, depth = self.port.width_bits, self.groups * self.places * self.block
        slots = self.layers * self.places
        place = index_bits(self.places)
        walk = counter(depth) + counter(self.block) + counter(self.places)
        if self.layers > 1:
            walk += counter(self.layers * depth) + counter(self.layers)
        words = Memory(1 << index_bits(self.layers * depth), width, stages=1)
        bounded = self.places < 1 << self.position
        bound = Components.of(Compare(self.position, constant=True), Mux(2, place)) * bounded
        written = Components.of(Register(slots), Mux(slots, 1), Gates(2 * slots))
        stages = Components.of(Register(2 * index_bits(depth) + 2 * width + 6), Gates(place + 2))
        chosen = Components.of(Mux(2, width), Register(width))
        handshakes = join(2) + stream_pipeline(width, 3)
        return Components.of(words) + walk + bound + written + stages + chosen + handshakes

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """Groups of blocks, a place a beat, and the parts of three layers."""

        def port(beats: int) -> Port:
            return Port((StreamField("", 2, 3),), beats, packed=True)

        alone = cls(port(5), 1, 5, 1, 3)
        return (cls(port(24), 2, 4, 3, 2), alone, replace(alone, layers=3))
