"""A stream of one inference before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mase_hw.cells._base import Cell, Port
from mase_hw.cells._components import Components, Gates, Memory, Register
from mase_hw.cells._motion import Motion, Steps
from mase_hw.cells._pipeline import counter, stream_pipeline
from mase_hw.formats import StreamField


@dataclass(frozen=True)
class Previous(Cell):
    """A memory of an inference's beats, each read where the next one is written.

    Attributes:
        port: the stream.
        layers: that run on the same hardware, each with its beats.
    """

    port: Port
    layers: int = 1

    def multiplexed(self, others: Sequence[Cell]) -> Cell:
        """Return the same with the beats of all layers: each comes back with its layer."""
        super().multiplexed(others)
        return replace(self, layers=1 + len(others))

    @property
    def inputs(self) -> Mapping[str, Port]:
        return {"data_in": replace(self.port, packed=True)}

    @property
    def outputs(self) -> Mapping[str, Port]:
        return {"data_out": replace(self.port, packed=True)}

    @property
    def parameters(self) -> Mapping[str, int]:
        return {"WIDTH": self.port.width_bits, "BEATS": self._beats}

    @property
    def _beats(self) -> int:
        return self.port.beats * self.layers

    @property
    def motion(self) -> Motion:
        return Steps(4)

    @property
    def components(self) -> Components:
        """The memory, what counts its beats, and a pipeline of two stages."""
        width = self.port.width_bits
        words = Memory(self._beats, width, stages=1, small=True)
        stages = Components.of(words, Register(width + 2), Gates(width + 1))
        return stages + counter(self._beats) + stream_pipeline(width, 2)

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """One beat, and several that are no power of two."""
        return tuple(cls(Port((StreamField("", 2, 3),), beats)) for beats in (1, 2, 5))
