"""Block minifloat: minifloats with denormals in blocks that share an exponent bias.

Value set: `minifloat * 2**X`, the minifloat as in `minifloat_denorm` with bias
`2**(exponent_width - 1) - 1`, `X` of `exponent_bias_width` bits around zero. Block rule: see
`mase_hw.formats._block`, `emax` being the exponent of the largest minifloat: the largest value of a
block has the largest exponent, whatever the scale of the data. Elements round to nearest, ties to
even, and saturate; both zeros have a code; infinities saturate; NaN is refused.

Source: Fox, Rasoulinezhad, Faraone, Boland, Leong, "A Block Minifloat Representation for Training
Deep Neural Networks" (ICLR 2021).
"""

from __future__ import annotations

from dataclasses import dataclass

from mase_hw.formats._block import BlockFormat, PowerScale
from mase_hw.formats._checks import check_integer
from mase_hw.formats._float import FloatElement
from mase_hw.formats._minifloat import default_bias


@dataclass(frozen=True)
class BlockMinifloat(BlockFormat):
    """Block minifloat.

    Attributes:
        width: bits of an element, 3 to 16.
        exponent_width: bits of an element's exponent, one mantissa bit is left at least.
        exponent_bias_width: bits of the shared bias, 2 to 8.
        block_size: elements that share a bias, from 1.
        axis: dimension along which a block lies.
    """

    name = "block_minifloat"
    abbreviation = "mxfp"
    inherited = (
        "width",
        "exponent_width",
        "exponent_bias_width",
        "block_size",
    )

    width: int = 8
    exponent_width: int = 4
    exponent_bias_width: int = 8
    block_size: int = 16
    axis: int = -1

    def __post_init__(self) -> None:
        check_integer(self.name, "width", self.width, 3, 16)
        high = min(6, self.width - 2)
        check_integer(self.name, "exponent_width", self.exponent_width, 1, high)
        check_integer(self.name, "exponent_bias_width", self.exponent_bias_width, 2, 8)
        mantissa = self.width - self.exponent_width - 1
        element = FloatElement(self.exponent_width, mantissa, default_bias(self.exponent_width))
        shared = self.exponent_bias_width
        self._set(element, PowerScale(shared, default_bias(shared), 1 << shared))

    @property
    def blocking(self) -> tuple[int, int]:
        return self.block_size, self.axis
