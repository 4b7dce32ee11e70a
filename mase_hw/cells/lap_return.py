"""Activations that leave a layer every round, and go back to where they entered in all but one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mase_hw.cells._base import PARAMETER, Cell, Origin, Origins, Port
from mase_hw.cells._motion import Motion, Steps
from mase_hw.cells._parts import Gates, Parts
from mase_hw.cells._pipeline import stream_register, turn


@dataclass(frozen=True)
class LapReturn(Cell):
    """A stream, and its copy without the last round.

    What goes back is taken at once, because there is room for all of it.

    Attributes:
        port: the activations of one round.
        beats: their beats.
        rounds: steps that they go through.
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
        """What leaves the step."""
        return {"data_in": self._port(self.rounds)}

    @property
    def outputs(self) -> Mapping[str, Port]:
        """All of it, and what goes back."""
        return {"data_out": self._port(self.rounds), "feedback": self._port(self.rounds - 1)}

    @property
    def motion(self) -> Motion:
        """Beat for beat, through a register."""
        return Steps(2)

    @property
    def parts(self) -> Parts:
        """What counts, and a register of a stream."""
        counters = turn(self.beats) + turn(self.rounds) + Parts.of(Gates(5))
        return counters + stream_register(self.port.width_bits)

    @property
    def origins(self) -> Origins:
        """Each beat its own."""
        return [[Origin("data_in", beat)] for beat in range(self.beats * self.rounds)]
