"""Activations that enter a layer: from before, and then those that come back from its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mase_hw.cells._base import PARAMETER, Cell, Origin, Origins, Port
from mase_hw.cells._motion import Motion
from mase_hw.cells._parts import Gates, Mux, Parts
from mase_hw.cells._pipeline import stream_register, turn
from mase_hw.cells.cat import Merge
from mase_hw.formats import StreamField


@dataclass(frozen=True)
class LapEntry(Cell):
    """A choice of two streams, round by round.

    Attributes:
        port: the activations of one inference.
        beats: their beats.
        rounds: layers through which they go.
    """

    port: Port = field(metadata={PARAMETER: False})
    beats: int
    rounds: int

    @property
    def parameters(self) -> Mapping[str, int]:
        """Bits of a beat, beats of a round, and rounds."""
        return {"WIDTH": self.port.width_bits, "BEATS": self.beats, "ROUNDS": self.rounds}

    def _port(self, rounds: int) -> Port:
        return replace(self.port, beats=self.beats * rounds, packed=True)

    @property
    def inputs(self) -> Mapping[str, Port]:
        """What comes from before, and what comes back."""
        return {"data_in": self._port(1), "feedback": self._port(self.rounds - 1)}

    @property
    def outputs(self) -> Mapping[str, Port]:
        """What enters the layer."""
        return {"data_out": self._port(self.rounds)}

    @property
    def motion(self) -> Motion:
        """A beat a cycle, of the stream whose turn it is."""
        whole = self.beats * self.rounds
        places = {"data_in": range(self.beats), "feedback": range(self.beats, whole)}
        return Merge(places, whole)

    @property
    def parts(self) -> Parts:
        """A choice, what counts, and a register of a stream."""
        width = self.port.width_bits
        counters = turn(self.beats) + turn(self.rounds) + Parts.of(Gates(4))
        return counters + Parts.of(Mux(2, width)) + stream_register(width)

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
        """Beats of one bit."""
        port = Port((StreamField("", 1, 1),), 2)
        return (cls(port, 2, 2), cls(port, 1, 3))
