"""What the ends of layers have in common that run on the same hardware, round by round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mase_hw.cells._base import PARAMETER, Cell, Port
from mase_hw.cells._components import Components, Gates
from mase_hw.cells._pipeline import counter, stream_register


@dataclass(frozen=True)
class LoopEnd(Cell):
    """A cell that counts the beats of a round, and rounds.

    Attributes:
        port: the activations of one round.
        beats: their beats.
        rounds: layers, or steps, through which they go.
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

    def _counted(self, gates: int) -> Components:
        """Components of a counter, some gates, and a register of a stream."""
        counters = counter(self.beats) + counter(self.rounds) + Components.of(Gates(gates))
        return counters + stream_register(self.port.width_bits)
