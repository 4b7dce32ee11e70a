"""Activations that leave a layer: back to where they entered, or on behind the last round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mase_hw.cells._base import Port
from mase_hw.cells._components import Components
from mase_hw.cells._loop import LoopEnd
from mase_hw.cells._motion import Motion, Select


@dataclass(frozen=True)
class LoopExit(LoopEnd):
    """One stream that becomes two, round by round.

    What goes back is taken at once, because there is room for all of it.
    """

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
    def components(self) -> Components:
        """What counts, and a register of a stream."""
        return self._counted(5)
