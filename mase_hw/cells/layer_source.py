"""A memory that streams the constants of one layer after the other, for ever."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mase_hw.cells._base import Image, Value, fact
from mase_hw.cells._components import Components, Register, Table
from mase_hw.cells._pipeline import counter, layer_walk
from mase_hw.cells.rom_source import RomSource


@dataclass(frozen=True)
class LayerSource(RomSource):
    """Constant operands of several layers that run on the same hardware.

    Attributes:
        layers: whose words follow each other in the image.
        walks: times that the words of a layer are sent.
    """

    layers: int = fact(1)
    walks: int = fact(1)

    @classmethod
    def of_layers(cls, sources: Sequence[RomSource], beats: int) -> LayerSource:
        """Return the memory of several layers.

        Args:
            sources: the memory of each, alike but for their words.
            beats: words that an inference takes of each.
        """
        first = sources[0]
        images = [source.image for source in sources]
        image = Image.of_octets(
            first.image.width_bits, lambda: np.concatenate([item.octets for item in images])
        )
        walks = beats // (first.depth * first.hold)
        return cls(
            first.port,
            image,
            first.depth,
            first.hold,
            first.spec,
            first.style,
            len(sources),
            walks,
        )

    @property
    def parameters(self) -> Mapping[str, Value]:
        """Also layers, and walks through each."""
        return {**super().parameters, "LAYERS": self.layers, "WALKS": self.walks}

    @property
    def words(self) -> int:
        return self.depth * self.layers

    @property
    def components(self) -> Components:
        """The words, a register behind them, and what counts them, walks and layers."""
        width = self.image.width_bits
        counters = layer_walk(self.depth, self.layers, self.walks) + counter(self.hold)
        logic = self.style in ("logic", "distributed")
        table = Table(
            self.words, width, self.image, self._is_block, stages=self._registers, logic=logic
        )
        return counters + Components.of(table, Register(2))
