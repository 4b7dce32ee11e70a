"""A queue of beats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mase_hw.cells._base import Cell, Origin, Origins, Port
from mase_hw.cells._components import Components, Gates, Mux, Register
from mase_hw.cells._motion import Queue
from mase_hw.cells._pipeline import credits, level, queue_memory
from mase_hw.formats import StreamField


@dataclass(frozen=True)
class StreamFifo(Cell):
    """A queue between two paths of different delay.

    Attributes:
        port: the stream.
        depth: beats that it holds.
    """

    port: Port
    depth: int

    @property
    def inputs(self) -> Mapping[str, Port]:
        return {"data_in": replace(self.port, packed=True)}

    @property
    def outputs(self) -> Mapping[str, Port]:
        return {"data_out": replace(self.port, packed=True)}

    @property
    def parameters(self) -> Mapping[str, int]:
        """Bits of a beat, and beats."""
        return {"WIDTH": self.port.width_bits, "DEPTH": self.depth}

    @property
    def motion(self) -> Queue:
        """A beat a cycle, the cycle after it entered; every other cycle with a single place."""
        return Queue(self.depth)

    @property
    def components(self) -> Components:
        """A memory, what counts its words, and the register behind it."""
        width = self.port.width_bits
        if self.depth == 1:
            return credits(1) + Components.of(Register(width + 1), Gates(1))
        words = queue_memory(width, self.depth, passed=True) + Components.of(
            Mux(2, width), Gates(6, levels=3)
        )
        return words + credits(self.depth) + level(self.depth - 1)

    @property
    def origins(self) -> Origins:
        return [[Origin("data_in", beat)] for beat in range(self.port.beats)]

    @property
    def busy_cycles(self) -> int:
        return self.port.beats * self.motion.step

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """Queues of one beat, and of more than one and not a power of two."""
        port = Port((StreamField("", 2, 5),), 12)
        return (cls(port, 1), cls(port, 3), cls(port, 8))

    @classmethod
    def proofs(cls) -> Sequence[Cell]:
        """Queues of one to five beats, and of eight, of one to three bits."""
        sizes = [(1, 1), (2, 2), (3, 3), (1, 4), (1, 5), (2, 8)]
        return [cls(Port((StreamField("", 1, width),), 1), depth) for width, depth in sizes]
