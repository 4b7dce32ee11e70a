"""Blocks of beats that are stored, two at a time, and sent again and again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mase_hw.cells._base import Cell, Origin, Origins, Port
from mase_hw.cells._motion import Motion, Replay
from mase_hw.cells._parts import Gates, Memory, Parts, Register
from mase_hw.cells._pipeline import credits, level, stream_pipeline, turn
from mase_hw.formats import StreamField


@dataclass(frozen=True)
class StreamReplay(Cell):
    """A double buffer of blocks.

    Attributes:
        port: the stream that enters.
        block: beats of a block.
        repeats: times that each is sent, from 2.
    """

    port: Port
    block: int
    repeats: int

    @property
    def inputs(self) -> Mapping[str, Port]:
        """Blocks one after another."""
        return {"data_in": replace(self.port, packed=True)}

    @property
    def outputs(self) -> Mapping[str, Port]:
        """Each block again and again."""
        return {"data_out": replace(self.port, beats=self.port.beats * self.repeats, packed=True)}

    @property
    def parameters(self) -> Mapping[str, int]:
        """Bits of a beat, beats of a block, and how often."""
        return {"WIDTH": self.port.width_bits, "BLOCK": self.block, "REPEATS": self.repeats}

    @property
    def parts(self) -> Parts:
        """A memory of two blocks, what counts their beats, and a pipeline of two stages."""
        width, depth = self.port.width_bits, 2 * self.block
        counters = turn(self.block) * 2 + turn(self.repeats) + level(depth)
        control = credits(2) + Parts.of(Register(4), Gates(6))
        words = Memory(2 << (self.block - 1).bit_length(), width, stages=1)
        stored = Parts.of(words, Register(width))
        return stored + counters + control + stream_pipeline(width, 2)

    @property
    def motion(self) -> Motion:
        """A beat a cycle, without gaps between blocks."""
        return Replay(self.block, self.repeats)

    @property
    def origins(self) -> Origins:
        """Every block again and again."""
        return [[Origin("data_in", int(beat))] for beat in self.motion.needs("", self.port.beats)]

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """Blocks of one beat and of several."""
        port = Port((StreamField("", 2, 5),), 12)
        return (cls(port, 1, 3), cls(port, 4, 2), cls(port, 3, 5))

    @classmethod
    def proofs(cls) -> Sequence[Cell]:
        """Blocks of one to five beats, sent two to five times."""
        sizes = [(1, 1, 2), (1, 1, 3), (2, 2, 2), (1, 3, 3), (3, 4, 2), (1, 5, 5)]
        return [
            cls(Port((StreamField("", 1, width),), block), block, repeats)
            for width, block, repeats in sizes
        ]
