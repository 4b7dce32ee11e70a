"""Where activations leave layers that share their hardware."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from mase_hw.proof._harness import index_bits
from mase_hw.proof._parts._base import Part


@dataclass(frozen=True)
class LoopExit(Part):
    """The exit of a loop: all rounds but the last go back, and the last one, or all, go on."""

    name: ClassVar[str] = "loop"
    module: ClassVar[str] = "mase_loop_exit"
    width: int
    beats: int
    rounds: int
    every_round: bool = False

    @property
    def values(self) -> Mapping[str, object]:
        return {
            **super().values,
            "beat_bits": index_bits(self.beats),
            "round_bits": index_bits(self.rounds),
        }

    @classmethod
    def proofs(cls) -> Sequence[Part]:
        """One beat up to five, two rounds up to four, of which the last goes on, or all."""
        sizes = ((1, 1, 2), (1, 2, 3), (2, 4, 2), (1, 3, 4), (2, 5, 3))
        return [cls(*size, every) for every in (False, True) for size in sizes]
