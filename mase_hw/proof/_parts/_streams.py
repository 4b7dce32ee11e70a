"""Forks, joins and gearboxes, which are parts of many cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from mase_hw.proof._parts._base import Part


@dataclass(frozen=True)
class Fork(Part):
    """A fork to `count` consumers."""

    name: ClassVar[str] = "fork"
    module: ClassVar[str] = "mase_stream_fork"
    count: int

    @classmethod
    def proofs(cls) -> Sequence[Part]:
        return [cls(count) for count in range(2, 6)]


@dataclass(frozen=True)
class Join(Part):
    """A join of `count` producers."""

    name: ClassVar[str] = "join"
    module: ClassVar[str] = "mase_stream_join"
    count: int

    @classmethod
    def proofs(cls) -> Sequence[Part]:
        return [cls(count) for count in range(2, 6)]


@dataclass(frozen=True)
class Gearbox(Part):
    """A gearbox of beats of `in_width` bits into `words` words of `out_width` bits a period."""

    name: ClassVar[str] = "gearbox"
    module: ClassVar[str] = "mase_stream_gearbox"
    in_width: int
    out_width: int
    words: int

    @property
    def values(self) -> Mapping[str, object]:
        needs = [-(-(word + 1) * self.out_width // self.in_width) for word in range(self.words)]
        beats = needs[-1]
        bits = (max(beats, self.words) + 1).bit_length()
        return {**super().values, "needs": needs, "beats": beats, "bits": bits}

    @classmethod
    def proofs(cls) -> Sequence[Part]:
        sizes = ((4, 2, 3), (4, 3, 3), (2, 3, 2), (2, 4, 2), (3, 3, 1), (4, 1, 5), (2, 5, 3))
        return [cls(*item) for item in sizes]
