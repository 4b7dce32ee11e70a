"""Block floating point: significands with a sign in blocks that share an exponent.

Value set: `code * 2**-(width - 2) * 2**X` for codes from `-(2**(width - 1) - 1)` to its negative
(two's complement; the most negative code is never produced), `X = stored - exponent_bias`. Block
rule: see `mase_hw.formats._block` with `emax = 0`. Elements round to nearest, ties to even, and
saturate. Zero has one code; infinities saturate; NaN is refused.

Source: Wilkinson, "Rounding Errors in Algebraic Processes" (1963); Darvish Rouhani et al., "Pushing
the Limits of Narrow Precision Inferencing at Cloud Scale with Microsoft Floating Point" (2020).
"""

from __future__ import annotations

from dataclasses import dataclass

from mase_hw.formats._block import MAX_SCALE_BIAS, BlockFormat, PowerScale
from mase_hw.formats._checks import check_integer
from mase_hw.formats._integer import IntegerElement
from mase_hw.formats._minifloat import default_bias


@dataclass(frozen=True)
class BlockFP(BlockFormat):
    """Block floating point.

    Attributes:
        width: bits of an element, sign included, 2 to 16.
        exponent_width: bits of the shared exponent, 1 to 8.
        exponent_bias: half of the exponent's codes when not given.
        block_size: elements that share an exponent, from 1.
        axis: dimension along which a block lies.
    """

    name = "block_fp"
    abbreviation = "mxint"
    inherited = ("width", "exponent_width", "block_size")

    width: int = 8
    exponent_width: int = 8
    exponent_bias: int | None = None
    block_size: int = 16
    axis: int = -1

    def __post_init__(self) -> None:
        check_integer(self.name, "width", self.width, 2, 16)
        check_integer(self.name, "exponent_width", self.exponent_width, 1, 8)
        bias = default_bias(self.exponent_width)
        if self.exponent_bias is not None:
            low = max(0, (1 << self.exponent_width) - 255)
            check_integer(self.name, "exponent_bias", self.exponent_bias, low, MAX_SCALE_BIAS)
            bias = self.exponent_bias
        scale = PowerScale(self.exponent_width, bias, 1 << self.exponent_width)
        self._set(IntegerElement(self.width), scale)

    @property
    def blocking(self) -> tuple[int, int]:
        return self.block_size, self.axis
