"""Logarithmic: powers of two with a sign, and zero.

Value set: `(-1)**s * 2**(e - exponent_bias)` for stored exponents `e >= 1` of `width - 1` bits, and
zero (both signs) for `e = 0`. Rounding is to the nearest value, so that the border between `2**k`
and `2**(k+1)` is `1.5 * 2**k`, which goes up; half of the smallest number and less becomes zero.
What exceeds the largest number saturates, infinities too. There are no denormals. NaN is refused.

Source: Miyashita, Lee, Murmann, "Convolutional Neural Networks using Logarithmic Data
Representation" (2016), arXiv:1603.01025; zero has a code of its own and rounding is in the value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mase_hw._kinds import Setting
from mase_hw.formats._base import Format
from mase_hw.formats._checks import check_integer
from mase_hw.formats._float import FloatElement
from mase_hw.formats._minifloat import MAX_BIAS, FloatFormat, checked_bias


@dataclass(frozen=True)
class Log(FloatFormat):
    """Powers of two.

    Attributes:
        width: bits of a code, sign included, 2 to 8.
        exponent_bias: subtracted from the stored exponent; half of the codes when not given.

    Examples:
        >>> Log(4).round_values(torch.tensor([0.0, 0.3, -5.0]))
        tensor([ 0.0000,  0.2500, -4.0000])
    """

    name = "log"
    abbreviation = "minifloat"
    fitted = ("exponent_bias",)
    inherited = ("width",)
    sparse = True

    width: int = 8
    exponent_bias: int | None = None

    def __post_init__(self) -> None:
        check_integer(self.name, "width", self.width, 2, 8)
        bias = checked_bias(self.name, self.width - 1, self.exponent_bias)
        self._set_element(FloatElement(self.width - 1, 0, bias))

    def __str__(self) -> str:
        """Return a short name such as `log<4,3>` (width, bias)."""
        return f"log<{self.width},{self.layout.bias}>"

    @classmethod
    def fit(cls, minimum: float, maximum: float, **fields: Setting) -> Log:
        """Return the format whose largest number is the power of two nearest to the range's end."""
        number_format = cls(**fields)
        largest = max(abs(minimum), abs(maximum))
        if "exponent_bias" in fields or not 0.0 < largest < math.inf:
            return number_format
        mantissa, exponent = math.frexp(largest)
        wanted = exponent - (mantissa < 0.75)
        bias = (1 << (number_format.width - 1)) - 1 - wanted
        return cls(**{**fields, "exponent_bias": max(-MAX_BIAS, min(MAX_BIAS, bias))})

    @classmethod
    def covering(cls, formats: Sequence[Format], minimum: float, maximum: float) -> Format | None:
        """Return the powers of two from the smallest to the largest of any, in up to 8 bits."""
        layouts = [item.layout for item in formats if isinstance(item, Log)]
        highest = max((1 << item.exponent_width) - 1 - item.bias for item in layouts)
        codes = highest + max(item.bias for item in layouts)
        width = min(8, codes.bit_length() + 1)
        return cls(width, (1 << (width - 1)) - 1 - highest)
