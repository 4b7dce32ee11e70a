"""Block log: powers of two with a sign, and zero, in blocks that share an exponent bias.

Value set: `(-1)**s * 2**(e - bias) * 2**X` for stored exponents `e >= 1` of `width - 1` bits, and
zero for `e = 0`; `X` of `exponent_bias_width` bits around zero. Block rule: as in
`mase_hw.formats._block`, but the exponent of the largest magnitude is rounded to nearest as the
elements are, so that the largest element never saturates where X is not at its bound; the largest
X is that of `2**127`, so that values stay in binary32. Elements
round to the nearest value as in `log`; infinities saturate; NaN is refused.

Source: the shared bias of Fox et al., "A Block Minifloat Representation for Training Deep Neural
Networks" (ICLR 2021), on the logarithmic numbers of Miyashita et al. (2016), arXiv:1603.01025.
"""

from __future__ import annotations

from dataclasses import dataclass

from mase_hw.formats._block import BlockFormat, PowerScale
from mase_hw.formats._checks import check_integer
from mase_hw.formats._float import FloatElement
from mase_hw.formats._minifloat import default_bias


@dataclass(frozen=True)
class BlockLog(BlockFormat):
    """Block log.

    Attributes:
        width: bits of an element, sign included, 2 to 8.
        exponent_bias_width: bits of the shared bias, 2 to 8.
        block_size: elements that share a bias, from 1.
        axis: dimension along which a block lies.
    """

    name = "block_log"
    abbreviation = "mxfp"
    inherited = ("width", "exponent_bias_width", "block_size")
    sparse = True

    width: int = 5
    exponent_bias_width: int = 8
    block_size: int = 16
    axis: int = -1

    def __post_init__(self) -> None:
        check_integer(self.name, "width", self.width, 2, 8)
        check_integer(self.name, "exponent_bias_width", self.exponent_bias_width, 2, 8)
        element = FloatElement(self.width - 1, 0, default_bias(self.width - 1))
        shared = self.exponent_bias_width
        bias = default_bias(shared)
        # What is rounded up must not leave binary32.
        codes = min(1 << shared, bias + 128 - element.exponent)
        scale = PowerScale(shared, bias, codes, nearest=True)
        self._set(element, scale)

    @property
    def blocking(self) -> tuple[int, int]:
        return self.block_size, self.axis
