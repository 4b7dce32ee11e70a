"""Activations that leave a layer every round, and go back to where they entered in all but one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mase_hw.cells._base import Origin, Origins, Port
from mase_hw.cells._components import Components
from mase_hw.cells._loop import LoopEnd
from mase_hw.cells._motion import Motion, Steps


@dataclass(frozen=True)
class LoopReturn(LoopEnd):
    """A stream, and its copy without the last round.

    What goes back is taken at once, because there is room for all of it.
    """

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
    def components(self) -> Components:
        """What counts, and a register of a stream."""
        return self._counted(5)

    @property
    def origins(self) -> Origins:
        """Each beat its own."""
        return [[Origin("data_in", beat)] for beat in range(self.beats * self.rounds)]
