"""Where activations leave layers that share their hardware."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from mase_hw.proof._harness import index_bits
from mase_hw.proof._parts._base import Part


@dataclass(frozen=True)
class LoopExit(Part):
    """The exit of `rounds` rounds of `beats` beats: the last one goes on, the others back."""

    name: ClassVar[str] = "loop"
    module: ClassVar[str] = "mase_loop_exit"
    all_go_on: ClassVar[bool] = False
    width: int
    beats: int
    rounds: int

    @property
    def values(self) -> Mapping[str, object]:
        """The parameters, what goes on, and bits of counts."""
        return {
            **super().values,
            "module": self.module,
            "all_go_on": self.all_go_on,
            "beat_bits": index_bits(self.beats),
            "round_bits": index_bits(self.rounds),
        }

    @classmethod
    def proofs(cls) -> Sequence[Part]:
        """One beat up to five, two rounds up to four."""
        return [cls(*item) for item in ((1, 1, 2), (1, 2, 3), (2, 4, 2), (1, 3, 4), (2, 5, 3))]


@dataclass(frozen=True)
class LoopReturn(LoopExit):
    """The same, but all of it goes on."""

    module: ClassVar[str] = "mase_loop_return"
    all_go_on: ClassVar[bool] = True
