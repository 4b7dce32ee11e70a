"""Minifloats: with denormals, and as IEEE 754 lays them out.

Minifloat with denormals and without infinities and NaN.

Value set: `(-1)**s * (2**M + m) * 2**(e - bias - M)` for stored exponents `e >= 1`, denormals
`(-1)**s * m * 2**(1 - bias - M)` for `e = 0`; every exponent holds numbers. `M = width -
exponent_width - 1` is at least 1; the bias is `2**(exponent_width - 1) - 1` unless it is given.
Rounding is to nearest, ties to even, after which carries raise the exponent. What exceeds the
largest number saturates, infinities too. Both zeros have a code. NaN is refused.

Source: IEEE 754-2019, sections 3.4 and 4.3, without its special values; the OCP formats FP4 and
FP6 are of this kind (OCP Microscaling Formats 1.0, section 5.3).

Minifloat as IEEE 754 lays it out: the largest exponent holds infinities and NaN.

Value set: as `minifloat_denorm` for stored exponents below the largest one; the largest exponent
with mantissa 0 is infinity, with any other NaN. Rounding is to nearest, ties to even. With
`saturate` (the default) what exceeds the largest number becomes it, infinities too; without, it
becomes infinity. NaN has a code. Both zeros have a code; denormals are kept.

Source: IEEE 754-2019, sections 3.4 and 4.3; saturation as in OCP 8-bit Floating Point
Specification (OFP8) 1.0, section 5.2.
"""

from __future__ import annotations

from dataclasses import dataclass

from mase_hw.formats._checks import check_bool, check_integer
from mase_hw.formats._float import FloatElement
from mase_hw.formats._minifloat import (
    MAX_EXPONENT_WIDTH,
    MAX_WIDTH_BITS,
    FloatFormat,
    checked_bias,
)


@dataclass(frozen=True)
class MinifloatDenorm(FloatFormat):
    """Floats of any width whose every code is a number.

    Attributes:
        width: bits of a code, 3 to 24.
        exponent_width: bits of the exponent, from 1, one mantissa bit is left at least.
        exponent_bias: half of the exponent codes when not given.

    Examples:
        >>> MinifloatDenorm(8, 4).round_values(torch.tensor([1.96875, 500.0]))
        tensor([  2., 480.])
    """

    name = "minifloat_denorm"
    abbreviation = "minifloat"
    inherited = ("width", "exponent_width", "exponent_bias")

    width: int = 8
    exponent_width: int = 4
    exponent_bias: int | None = None

    def __post_init__(self) -> None:
        check_integer(self.name, "width", self.width, 3, MAX_WIDTH_BITS)
        high = min(MAX_EXPONENT_WIDTH, self.width - 2)
        check_integer(self.name, "exponent_width", self.exponent_width, 1, high)
        bias = checked_bias(self.name, self.exponent_width, self.exponent_bias)
        mantissa = self.width - self.exponent_width - 1
        self._set_element(FloatElement(self.exponent_width, mantissa, bias))


@dataclass(frozen=True)
class MinifloatIEEE(FloatFormat):
    """Floats of any width with infinities and NaN.

    Attributes:
        width: bits of a code, 4 to 24.
        exponent_width: bits of the exponent, from 2, one mantissa bit is left at least.
        exponent_bias: half of the exponent codes when not given.
        saturate: whether overflow gives the largest number, or infinity.

    Examples:
        >>> MinifloatIEEE(8, 5).round_values(torch.tensor([1e6]))
        tensor([57344.])
    """

    name = "minifloat_ieee"
    abbreviation = "minifloat"
    inherited = ("width", "exponent_width", "exponent_bias", "saturate")

    width: int = 8
    exponent_width: int = 5
    exponent_bias: int | None = None
    saturate: bool = True

    def __post_init__(self) -> None:
        check_integer(self.name, "width", self.width, 4, MAX_WIDTH_BITS)
        high = min(MAX_EXPONENT_WIDTH, self.width - 2)
        check_integer(self.name, "exponent_width", self.exponent_width, 2, high)
        check_bool(self.name, "saturate", self.saturate)
        bias = checked_bias(self.name, self.exponent_width, self.exponent_bias)
        mantissa = self.width - self.exponent_width - 1
        self._set_element(FloatElement(self.exponent_width, mantissa, bias, "ieee", self.saturate))
