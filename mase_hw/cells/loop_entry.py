"""Activations that enter a layer: from before, and then those that come back from its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mase_hw.cells._base import Cell, Origin, Origins, Port
from mase_hw.cells._components import Components, Mux
from mase_hw.cells._loop import LoopEnd
from mase_hw.cells._motion import Motion
from mase_hw.cells.cat import Merge
from mase_hw.formats import StreamField


@dataclass(frozen=True)
class LoopEntry(LoopEnd):
    """A choice of two streams, round by round."""

    @property
    def inputs(self) -> Mapping[str, Port]:
        """What comes from before, and what comes back."""
        return {"data_in": self._port(1), "feedback": self._port(self.rounds - 1)}

    @property
    def outputs(self) -> Mapping[str, Port]:
        return {"data_out": self._port(self.rounds)}

    @property
    def motion(self) -> Motion:
        whole = self.beats * self.rounds
        places = {"data_in": range(self.beats), "feedback": range(self.beats, whole)}
        return Merge(places, whole)

    @property
    def components(self) -> Components:
        """A choice, what counts, and a register of a stream."""
        return self._counted(4) + Components.of(Mux(2, self.port.width_bits))

    @property
    def origins(self) -> Origins:
        """Each beat, first of the one stream and then of the other."""
        first = [[Origin("data_in", beat)] for beat in range(self.beats)]
        others = range(self.beats * (self.rounds - 1))
        return [*first, *([Origin("feedback", beat)] for beat in others)]

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """Two rounds, and three of a beat each."""
        port = Port((StreamField("", 2, 3),), 4)
        return (cls(port, 4, 2), cls(port, 1, 3))

    @classmethod
    def proofs(cls) -> Sequence[Cell]:
        port = Port((StreamField("", 1, 1),), 2)
        return (cls(port, 2, 2), cls(port, 1, 3))
