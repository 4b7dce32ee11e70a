"""What reads constants from an external memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from mase_hw.cells import Cell
from mase_hw.graph.memory import PAGE_BYTES
from mase_hw.proof._harness import index_bits
from mase_hw.proof._parts._base import Part

# Most cycles in which nothing is due and nothing asked for: until what came has left the buffer.
IDLE_CYCLES = 2
# Most bits of a region that is proved: more take minutes.
MOST_BITS = 256


@dataclass(frozen=True)
class AxiReadPort(Part):
    """A port that `sources` requesters share, with `outstanding` bursts on their way at most."""

    name: ClassVar[str] = "axi_read_port"
    module: ClassVar[str] = "mase_axi_read_port"
    sources: int
    address_width: int
    data_width: int
    id_width: int
    outstanding: int

    @property
    def values(self) -> Mapping[str, object]:
        """The parameters, a base address, the code of a beat's bytes, and bits of counts."""
        return {
            **super().values,
            "base": PAGE_BYTES % (1 << self.address_width),
            "size": (self.data_width // 8).bit_length() - 1,
            "source_bits": index_bits(self.sources),
            "count_bits": (self.outstanding + 1).bit_length(),
        }

    @classmethod
    def proofs(cls) -> Sequence[Part]:
        sizes = ((1, 2, 8, 1, 1), (2, 13, 8, 1, 2), (3, 2, 16, 2, 3), (2, 2, 8, 2, 4))
        return [cls(*item) for item in sizes]


@dataclass(frozen=True)
class AxiSource(Part):
    """A source of `words` words of a region, each round of them sent `repeats` times."""

    name: ClassVar[str] = "axi_source"
    module: ClassVar[str] = "mase_axi_source"
    width: int
    words: int
    repeats: int
    data_width: int
    address_width: int
    offset: int
    burst_beats: int
    buffer_beats: int

    @classmethod
    def of(cls, cell: Cell) -> Part | None:
        part = super().of(cell)
        few = isinstance(part, AxiSource) and part.words * part.width <= MOST_BITS
        return part if few else None

    @property
    def needs(self) -> list[int]:
        """Beats of a round that have come when a word may go."""
        return [-(-(word + 1) * self.width // self.data_width) for word in range(self.words)]

    @property
    def bursts(self) -> list[tuple[int, int]]:
        """Offset and length less one of each burst of a round."""
        beats, most = self.needs[-1], self.burst_beats
        octets = self.data_width // 8
        return [
            (self.offset + first * octets, min(most, beats - first) - 1)
            for first in range(0, beats, most)
        ]

    @property
    def values(self) -> Mapping[str, object]:
        """The parameters, beats and bursts, bounds of time, and bits of counts."""
        beats = self.needs[-1]
        late = max(3, -(-self.width // self.data_width)) + (5 if self.repeats > 1 else 0)
        rounds = (self.buffer_beats + 1) // beats + 2 + (4 if self.repeats > 1 else 0)
        return {
            **super().values,
            "parameters": super().values,
            "needs": self.needs,
            "bursts": self.bursts,
            "late": late,
            "idle": IDLE_CYCLES,
            "late_bits": (late + 1).bit_length(),
            "burst_bits": index_bits(len(self.bursts)),
            "owed_bits": (self.buffer_beats + self.burst_beats + 1).bit_length(),
            "beat_bits": index_bits(beats),
            "ahead_bits": (rounds + 1).bit_length(),
            "word_bits": index_bits(self.words),
            "repeat_bits": index_bits(self.repeats),
            "place_bits": index_bits(self.buffer_beats),
            "spot_bits": index_bits(self.words * self.width),
        }

    @classmethod
    def proofs(cls) -> Sequence[Part]:
        """Words of more and of fewer bits than a beat, sent once and twice."""
        sizes = (
            (8, 3, 1, 8, 13, 4096, 2, 2),
            (6, 5, 1, 8, 13, 0, 2, 4),
            (24, 1, 1, 8, 13, 0, 1, 1),
            (4, 2, 2, 8, 13, 4096, 1, 2),
        )
        return [cls(*item) for item in sizes]
