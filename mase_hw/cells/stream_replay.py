"""Blocks of beats that are stored, two at a time, and sent again and again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mase_hw.cells._base import Cell, Origin, Origins, Port
from mase_hw.cells._components import Components, Gates, Memory, Register
from mase_hw.cells._growing import GrowingReplay, growth_parameters
from mase_hw.cells._motion import Motion, Replay
from mase_hw.cells._pipeline import credits, growing_counter, level, stream_pipeline
from mase_hw.formats import StreamField
from mase_hw.geometry.growth import Growth, even


@dataclass(frozen=True)
class StreamReplay(Cell):
    """A double buffer of blocks.

    Attributes:
        port: the stream that enters.
        block: beats of a block, of the longest one.
        repeats: times that each is sent, from 2, or the last ones are.
        blocks: the beats of each block, where they grow.
        times: how often each is sent, where that grows.
    """

    port: Port
    block: int
    repeats: int
    blocks: Growth | None = None
    times: Growth | None = None

    @property
    def inputs(self) -> Mapping[str, Port]:
        return {"data_in": replace(self.port, packed=True)}

    @property
    def outputs(self) -> Mapping[str, Port]:
        return {"data_out": replace(self.port, beats=self._sent, packed=True)}

    @property
    def _sent(self) -> int:
        """Beats of the result."""
        grows = isinstance(self.motion, GrowingReplay)
        return self.motion.results(self.port.beats) if grows else self.port.beats * self.repeats

    @property
    def parameters(self) -> Mapping[str, int]:
        """Bits of a beat, beats of a block, and how often."""
        return {
            "WIDTH": self.port.width_bits,
            "BLOCK": self.block,
            "REPEATS": self.repeats,
            **growth_parameters(self.blocks, "BLOCKS", "BLOCK_EVERY"),
            **growth_parameters(self.times, "BLOCKS", "REPEATS_EVERY"),
        }

    @property
    def components(self) -> Components:
        """A memory of two blocks, what counts their beats, and a pipeline of two stages."""
        width, depth = self.port.width_bits, 2 * self.block
        reads = self.blocks.times(runs=self.repeats) if self.blocks else None
        counters = growing_counter(self.block, self.blocks) + growing_counter(self.block, reads)
        counters += growing_counter(self.repeats, self.times) + level(depth)
        control = credits(2) + Components.of(Register(4), Gates(6))
        words = Memory(2 << (self.block - 1).bit_length(), width, stages=1)
        stored = Components.of(words, Register(width))
        return stored + counters + control + stream_pipeline(width, 2)

    @property
    def motion(self) -> Motion:
        """A beat a cycle, without gaps between blocks."""
        if self.blocks is not None:
            return GrowingReplay(self.blocks, self.blocks.times(self.repeats))
        if self.times is not None:
            return GrowingReplay(even(self.block, self.times.runs), self.times.times(self.block))
        return Replay(self.block, self.repeats)

    @property
    def origins(self) -> Origins:
        return [[Origin("data_in", int(beat))] for beat in self.motion.needs("", self.port.beats)]

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """Blocks of one beat and of several, some that grow or are sent more and more often."""
        port = Port((StreamField("", 2, 5),), 12)
        growth = Growth(1, 2, 6)
        return (
            *(cls(port, 1, 3), cls(port, 4, 2), cls(port, 3, 5)),
            cls(port, 3, 2, blocks=growth),
            cls(port, 2, 3, times=growth),
            cls(port, 1, 3, times=Growth(1, 1, 3)),
        )

    @classmethod
    def proofs(cls) -> Sequence[Cell]:
        """Blocks of one to five beats, sent two to five times."""
        sizes = [(1, 1, 2), (1, 1, 3), (2, 2, 2), (1, 3, 3), (3, 4, 2), (1, 5, 5)]
        return [
            cls(Port((StreamField("", 1, width),), block), block, repeats)
            for width, block, repeats in sizes
        ]
