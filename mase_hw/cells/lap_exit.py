"""Activations that leave a layer: back to where they entered, or on behind the last round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mase_hw.cells._base import PARAMETER, Cell, Port
from mase_hw.cells._motion import Motion, Select
from mase_hw.cells._parts import Gates, Parts
from mase_hw.cells._pipeline import stream_register, turn


@dataclass(frozen=True)
class LapExit(Cell):
    """One stream that becomes two, round by round.

    What goes back is taken at once, because there is room for all of it.

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
        """What leaves the layer."""
        return {"data_in": self._port(self.rounds)}

    @property
    def outputs(self) -> Mapping[str, Port]:
        """What leaves the last round, and what goes back."""
        return {"data_out": self._port(1), "feedback": self._port(self.rounds - 1)}

    @property
    def motion(self) -> Motion:
        """The last round, through a register."""
        whole = self.beats * self.rounds
        return Select(whole, tuple(range(whole - self.beats, whole)))

    @property
    def parts(self) -> Parts:
        """What counts, and a register of a stream."""
        counters = turn(self.beats) + turn(self.rounds) + Parts.of(Gates(5))
        return counters + stream_register(self.port.width_bits)
