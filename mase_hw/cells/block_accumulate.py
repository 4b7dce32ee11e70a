"""Sums of products of blocks with shared scales."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mase_hw.cells._accumulator import Accumulator, with_scale
from mase_hw.cells._base import Cell, Port
from mase_hw.cells._encoder import sums_encoder
from mase_hw.cells._motion import Motion
from mase_hw.formats import Encoding, Kind


@dataclass(frozen=True)
class BlockAccumulate(Accumulator):
    """Exact sums within a block, which are added in floating point.

    Attributes:
        group_terms: beats after which blocks begin anew.
        size: results of a row.
        guard_bits: further bits of the sums.
        sum_width: bits of the sums.
    """

    group_terms: int = 1
    size: int = 1
    guard_bits: int = 8
    sum_width: int = 32

    @property
    def inputs(self) -> Mapping[str, Port]:
        """Each with its scales, a bias that is not there too."""
        found = super().inputs
        return {**found, "bias": found["bias"] if self.bias else with_scale(found["bias"])}

    @property
    def motion(self) -> Motion:
        """A dot product, its place beside the sum, the sum; then its codes.

        The place is found in five cycles while products are summed.
        """
        integers = self.data_in_0.kind is self.weight.kind is Kind.INTEGER
        dot = (2 if integers else 4) + self._levels
        stages = max(1, dot - 4) + 10
        return sums_encoder(self.terms, stages, self.data_out_0, self.out_lanes, self.size)

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """Blocks longer and shorter than a group, a result in blocks."""
        blocks = Encoding(6, block_size=4, scale_width=5, scale_bias=16, scale_codes=31)
        plain = cls(blocks, blocks, blocks, Encoding(8, fraction=2), 4, 1, 2, 2, 12)
        plain = replace(plain, group_terms=4, size=2)
        return (plain, replace(plain, group_terms=1, bias=None), replace(plain, data_out_0=blocks))
