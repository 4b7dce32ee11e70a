"""MXINT: integers of 4, 6, 8 or any number of bits in blocks that share a scale.

Value set: `code * 2**-(width - 2) * 2**X`, two's complement codes, `X` from -127 to 127 in E8M0
code. Block rule: see `mase_hw.formats._block` with `emax = 0`. Elements round to nearest, ties to
even. They saturate at plus and minus `2**(width - 1) - 1`; with `symmetric` false also the most
negative code is used, which the standard leaves open (with it, values that are already
representable may lose a bit when they are rounded again). Zero has one code; infinities saturate;
NaN is refused.

Source: OCP Microscaling Formats (MX) 1.0, sections 5.3.4 and 6.3; widths 4 and 6 by analogy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mase_hw._kinds import Table
from mase_hw.formats._block import BlockFormat
from mase_hw.formats._checks import check_bool, check_integer
from mase_hw.formats._integer import IntegerElement
from mase_hw.formats._mx import e8m0

# Widths and sizes of blocks that a choice of formats tries, of those the first that divides a row.
TRIED_WIDTHS = range(4, 11)
TRIED_BLOCKS = (16, 8, 4)


@dataclass(frozen=True)
class MXInt(BlockFormat):
    """Microscaling integers.

    Attributes:
        width: bits of an element, sign included, 2 to 16.
        block_size: elements that share a scale, from 1.
        axis: dimension along which a block lies.
        exponent_width: bits of the scale, 2 to 8; 8 is the standard's.
        symmetric: whether the most negative code is left out.

    Examples:
        >>> MXInt(8, 2).round_values(torch.tensor([1.0, 0.01, 100.0, 0.3]))
        tensor([1.0000e+00, 1.5625e-02, 1.0000e+02, 0.0000e+00])
    """

    name = "mxint"
    abbreviation = "mxint"
    inherited = ("width", "block_size", "exponent_width", "symmetric")

    width: int = 8
    block_size: int = 32
    axis: int = -1
    exponent_width: int = 8
    symmetric: bool = True

    def __post_init__(self) -> None:
        check_integer(self.name, "width", self.width, 2, 16)
        check_integer(self.name, "exponent_width", self.exponent_width, 2, 8)
        check_bool(self.name, "symmetric", self.symmetric)
        self._set(IntegerElement(self.width, self.symmetric), e8m0(self.exponent_width))

    @property
    def blocking(self) -> tuple[int, int]:
        return self.block_size, self.axis

    @classmethod
    def choices(cls, row: int, channel_axis: int | None = None) -> Sequence[Table]:
        """Return the widths of `TRIED_WIDTHS` in blocks that divide a row."""
        sizes = [size for size in TRIED_BLOCKS if row % size == 0][:1]
        return [{"width": width, "block_size": size} for size in sizes for width in TRIED_WIDTHS]
