"""The end of a loop: activations go back to its entry, or on behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mase_hw.cells._base import Origin, Origins, Port
from mase_hw.cells._components import Components
from mase_hw.cells._loop import LoopEnd
from mase_hw.cells._motion import Motion, Select, Steps


@dataclass(frozen=True)
class LoopExit(LoopEnd):
    """One stream that becomes two: all rounds but the last go back, the last one goes on.

    What goes back is taken at once, because there is room for all of it.

    Attributes:
        every_round: whether all rounds go on, as where each step of a sequence has a result.
    """

    every_round: bool = False

    @property
    def parameters(self) -> Mapping[str, int]:
        return {**super().parameters, "EVERY_ROUND": int(self.every_round)}

    @property
    def inputs(self) -> Mapping[str, Port]:
        return {"data_in": self._port(self.rounds)}

    @property
    def outputs(self) -> Mapping[str, Port]:
        """What goes on, and what goes back."""
        on = self.rounds if self.every_round else 1
        return {"data_out": self._port(on), "feedback": self._port(self.rounds - 1)}

    @property
    def motion(self) -> Motion:
        whole = self.beats * self.rounds
        if self.every_round:
            return Steps(2)
        return Select(whole, tuple(range(whole - self.beats, whole)))

    @property
    def components(self) -> Components:
        return self._counted(5)

    @property
    def origins(self) -> Origins | None:
        """Each beat its own, where all rounds go on."""
        if not self.every_round:
            return super().origins
        return [[Origin("data_in", beat)] for beat in range(self.beats * self.rounds)]
