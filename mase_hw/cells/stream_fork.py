"""A stream copied to several consumers, each of which takes its beats by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mase_hw.cells._base import Cell, Port
from mase_hw.cells._components import Components, Gates, Register
from mase_hw.cells._motion import Motion, Steps


@dataclass(frozen=True)
class StreamFork(Cell):
    """The handshakes of a fork; the payload is the producer's.

    Attributes:
        count: number of consumers.
        beats: beats of one inference.
    """

    count: int
    beats: int = 1

    @property
    def inputs(self) -> Mapping[str, Port]:
        return {"data_in": Port((), self.beats)}

    @property
    def outputs(self) -> Mapping[str, Port]:
        """The copies, whose handshakes are one vector each."""
        return {"data_out": Port((), self.beats)}

    @property
    def parameters(self) -> Mapping[str, int]:
        return {"COUNT": self.count}

    @property
    def components(self) -> Components:
        return Components.of((Register(1), self.count), Gates(2 * self.count + 1))

    @property
    def motion(self) -> Motion:
        return Steps(0)
