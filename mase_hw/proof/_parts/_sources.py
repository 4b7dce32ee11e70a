"""Sources of constants on chip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from mase_hw.cells import Cell
from mase_hw.proof._parts._base import Part

# Most beats until the words come again: proofs of more take minutes.
MOST_BEATS = 256


@dataclass(frozen=True)
class RomSource(Part):
    """A source of `depth` words for ever, each for `hold` beats, in block memory or elsewhere."""

    name: ClassVar[str] = "source"
    module: ClassVar[str] = "mase_rom_source"
    depth: int
    hold: int
    block: bool = False
    logic: bool = False

    @classmethod
    def of(cls, cell: Cell) -> Part | None:
        part = super().of(cell)
        few = isinstance(part, RomSource) and len(part.order) * part.hold <= MOST_BEATS
        return part if few else None

    @property
    def order(self) -> Sequence[int]:
        """Places of the words in the memory, in the order in which they are sent."""
        return range(self.depth)

    @property
    def words(self) -> list[int]:
        """Words that differ, and whose order is no count."""
        return sorted(range(max(self.order) + 1), key=lambda place: (place * 5 + 3) % 8)

    @property
    def values(self) -> Mapping[str, object]:
        (file,) = self.images
        return {
            "parameters": super().values,
            "module": self.module,
            "hold": self.hold,
            "sent": [self.words[place] for place in self.order],
            "width": len(self.words).bit_length(),
            "bits": max(len(self.order), self.hold).bit_length(),
            "file": file,
        }

    @property
    def images(self) -> Mapping[str, str]:
        return {"words.mem": "".join(f"{word:x}\n" for word in self.words)}

    @classmethod
    def proofs(cls) -> Sequence[Part]:
        sizes = ((1, 1), (2, 1), (3, 1), (4, 2), (5, 3))
        sources = [cls(*item) for item in sizes]
        return [*sources, cls(3, 2, block=True), cls(3, 2, logic=True)]


@dataclass(frozen=True)
class LayerSource(RomSource):
    """A source of `depth` words of each of `layers` layers, those of a layer `walks` times over."""

    module: ClassVar[str] = "mase_layer_source"
    layers: int = 2
    walks: int = 1

    @property
    def order(self) -> Sequence[int]:
        return [
            layer * self.depth + place
            for layer in range(self.layers)
            for _ in range(self.walks)
            for place in range(self.depth)
        ]

    @classmethod
    def proofs(cls) -> Sequence[Part]:
        """One layer up to three, one word up to three, one walk up to three, one beat or two."""
        sizes = ((1, 1, 2, 1), (3, 1, 1, 2), (2, 1, 3, 1), (2, 2, 2, 2), (1, 2, 3, 3), (3, 1, 2, 3))
        sources = [
            cls(depth, hold, layers=layers, walks=walks) for depth, hold, layers, walks in sizes
        ]
        return [*sources, cls(2, 1, block=True, walks=2)]
