"""The float core: sign, exponent and mantissa of any width, on reals and on exact integers.

A code is `sign | exponent | mantissa`. With the stored exponent `e` and mantissa `m` of `M` bits
the value is `(2**M + m) * 2**(e - bias - M)`, and `m * 2**(1 - bias - M)` for `e = 0` (denormals
and both zeros). Rounding is to nearest, ties to even; without mantissa bits ties go away
from zero (IEEE 754-2019, section 4.3.1, precision of one digit).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mase_hw.formats import _binary_scale as binary

# What the largest exponent holds: numbers, numbers and one NaN, or infinities and NaN.
SPECIALS = ("none", "nan", "ieee")


@dataclass(frozen=True)
class FloatElement:
    """A float layout.

    Attributes:
        exponent_width: bits of the exponent, from 1.
        mantissa_width: stored bits of the mantissa, from 0.
        bias: of the exponent.
        specials: `none`, `nan` (all ones is NaN) or `ieee` (largest exponent is inf and NaN).
        saturate: what exceeds the largest number becomes it, else infinity or NaN.
    """

    exponent_width: int
    mantissa_width: int
    bias: int
    specials: str = "none"
    saturate: bool = True

    @property
    def width(self) -> int:
        """Bits of a code."""
        return 1 + self.exponent_width + self.mantissa_width

    @property
    def sign(self) -> int:
        """The bit that holds the sign."""
        return 1 << (self.width - 1)

    @property
    def lowest_exponent(self) -> int:
        """Exponent of the smallest normal number."""
        return 1 - self.bias

    @property
    def exponent(self) -> int:
        """Exponent of the largest number."""
        return (self.maximum_code >> self.mantissa_width) - self.bias

    @property
    def lsb_exponent(self) -> int:
        """Exponent of the unit in which all numbers are integers."""
        return self.lowest_exponent - self.mantissa_width

    @property
    def maximum_code(self) -> int:
        """Code of the largest number."""
        if self.specials == "ieee":
            return (((1 << self.exponent_width) - 1) << self.mantissa_width) - 1
        return self.sign - 1 - (self.specials == "nan")

    @property
    def maximum(self) -> float:
        """The largest number that has a code."""
        significand = (1 << self.mantissa_width) + (
            self.maximum_code & ((1 << self.mantissa_width) - 1)
        )
        return float(significand * 2.0 ** (self.exponent - self.mantissa_width))

    @property
    def clip(self) -> float:
        """Magnitude up to which rounding does not saturate."""
        return self.maximum + 2.0 ** (self.exponent - self.mantissa_width - 1)

    @property
    def infinity_code(self) -> int:
        """Code of infinity, of NaN where there is none."""
        if self.specials == "ieee":
            return self.maximum_code + 1
        return self.sign - 1

    @property
    def nan_code(self) -> int | None:
        """Code of the quiet NaN."""
        if self.specials == "ieee":
            return self.infinity_code | (1 << max(self.mantissa_width - 1, 0))
        return self.sign - 1 if self.specials == "nan" else None

    def dtype(self, values: Tensor) -> torch.dtype:
        """Return the dtype in which `values` are rounded exactly."""
        narrow = self.lsb_exponent >= -100 and self.exponent <= 100 and self.mantissa_width < 23
        return torch.float32 if narrow and values.dtype != torch.float64 else torch.float64

    def round(self, values: Tensor) -> Tensor:
        """Return the nearest numbers in the dtype of `values`; NaN stays."""
        work = values.to(self.dtype(values))
        exponent = binary.exponent_of(work).clamp(self.lowest_exponent, self.exponent)
        step = exponent - self.mantissa_width
        steps = torch.round(work * binary.power_of_two(-step, work.dtype))
        rounded = steps * binary.power_of_two(step, work.dtype)
        if self.saturate or self.specials == "none":
            return rounded.clamp(-self.maximum, self.maximum).to(values.dtype)
        beyond = float("inf") if self.specials == "ieee" else float("nan")
        special = torch.copysign(torch.full_like(rounded, beyond), rounded)
        return torch.where(rounded.abs() > self.maximum, special, rounded).to(values.dtype)

    def encode(self, values: Tensor) -> Tensor:
        """Return int64 codes of real values; NaN must have a code."""
        rounded = self.round(values.double())
        magnitude = rounded.abs().nan_to_num(0.0, posinf=0.0)
        exponent = binary.exponent_of(magnitude).clamp(min=self.lowest_exponent)
        steps = magnitude * binary.power_of_two(self.mantissa_width - exponent, torch.float64)
        codes = ((exponent - self.lowest_exponent) << self.mantissa_width) + steps.to(torch.int64)
        codes = torch.where(torch.isinf(rounded), self.infinity_code, codes)
        if self.nan_code is not None:
            codes = torch.where(torch.isnan(rounded), self.nan_code, codes)
        return codes | torch.where(torch.signbit(rounded), self.sign, 0)

    def decode(self, codes: Tensor) -> Tensor:
        """Return the numbers of codes, in float64."""
        significand, exponent = self._parts(codes)
        power = binary.power_of_two(exponent + self.lsb_exponent, torch.float64)
        values = significand.double() * power
        if self.specials != "none":
            magnitude = codes & (self.sign - 1)
            values = torch.where(magnitude > self.maximum_code, float("nan"), values)
        if self.specials == "ieee":
            values = torch.where(magnitude == self.infinity_code, float("inf"), values)
        return torch.where(codes & self.sign != 0, -values, values)

    def integers(self, codes: Tensor) -> Tensor:
        """Return the values as int64 multiples of `2**lsb_exponent`."""
        significand, exponent = self.significands(codes)
        return significand << exponent

    def significands(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Return signed significands, and their exponents above `lsb_exponent`."""
        significand, exponent = self._parts(codes)
        return torch.where(codes & self.sign != 0, -significand, significand), exponent

    def scaled(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Return int64 significands with a sign, and exponents: `significand * 2**exponent`."""
        significand, exponent = self.significands(codes)
        return significand, exponent + self.lsb_exponent

    def _parts(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Return significand and exponent above the denormals' of the magnitude."""
        hidden = 1 << self.mantissa_width
        stored = (codes >> self.mantissa_width) & ((1 << self.exponent_width) - 1)
        mantissa = codes & (hidden - 1)
        significand = torch.where(stored == 0, mantissa, mantissa + hidden)
        return significand, (stored - 1).clamp(min=0)

    def from_scaled(self, integers: Tensor, exponents: Tensor) -> Tensor:
        """Return the codes nearest to `integers * 2**exponents`, exact in int64.

        Args:
            integers: int64 of magnitude up to `2**62`.
            exponents: int64 of the same shape.
        """
        magnitude = integers.abs()
        exponent = (binary.top_bit(magnitude) + exponents).clamp(min=self.lowest_exponent)
        exponent = torch.where(magnitude == 0, self.lowest_exponent, exponent)
        # Numbers of any size are capped later; the exponent code must not overflow before.
        exponent = exponent.clamp(max=self.exponent + 1)
        steps = binary.scaled_integer(
            magnitude, exponents - exponent + self.mantissa_width, self.mantissa_width + 2
        )
        codes = ((exponent - self.lowest_exponent) << self.mantissa_width) + steps
        if self.saturate or self.specials == "none":
            codes = codes.clamp(max=self.maximum_code)
        else:
            codes = torch.where(codes > self.maximum_code, self.infinity_code, codes)
        return codes | torch.where(integers < 0, self.sign, 0)

    def random_codes(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Return uniform codes of finite numbers."""
        drawn = torch.randint(0, 2 * (self.maximum_code + 1), shape, generator=generator)
        return (drawn >> 1) | ((drawn & 1) << (self.width - 1))
