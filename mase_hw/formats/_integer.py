"""The integer element of a block: a two's complement significand with one bit before the point."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mase_hw.formats import _binary_scale as binary


@dataclass(frozen=True)
class IntegerElement:
    """Multiples of `2**-(width - 2)` in `(-2, 2)`, the same contract as `FloatElement`.

    Attributes:
        width: bits of a code, sign included, from 2.
        symmetric: whether the most negative code is left out of rounding.
    """

    width: int
    symmetric: bool = True

    # floor(log2) of the largest number.
    exponent = 0

    @property
    def maximum(self) -> float:
        """The largest number that has a code."""
        return float(((1 << (self.width - 1)) - 1) * 2.0**self.lsb_exponent)

    @property
    def clip(self) -> float:
        """Magnitude up to which rounding does not saturate."""
        return self.maximum + 2.0 ** (self.lsb_exponent - 1)

    @property
    def lsb_exponent(self) -> int:
        """Exponent of one step."""
        return 2 - self.width

    @property
    def nan_code(self) -> int | None:
        """None: there is no NaN."""
        return None

    @property
    def _limits(self) -> tuple[int, int]:
        high = (1 << (self.width - 1)) - 1
        return -high - (not self.symmetric), high

    def dtype(self, values: Tensor) -> torch.dtype:
        """Return the dtype in which `values` are rounded exactly."""
        return torch.float32 if self.width < 24 and values.dtype != torch.float64 else torch.float64

    def _steps(self, values: Tensor) -> Tensor:
        low, high = self._limits
        return torch.round(values * 2.0**-self.lsb_exponent).clamp(low, high)

    def round(self, values: Tensor) -> Tensor:
        """Return the nearest numbers in the dtype of `values`; NaN stays."""
        work = values.to(self.dtype(values))
        return (self._steps(work) * 2.0**self.lsb_exponent).to(values.dtype)

    def encode(self, values: Tensor) -> Tensor:
        """Return bit patterns of real values."""
        return self._steps(values.double()).to(torch.int64) & ((1 << self.width) - 1)

    def decode(self, codes: Tensor) -> Tensor:
        """Return float64 values of bit patterns."""
        return self.integers(codes).double() * 2.0**self.lsb_exponent

    def integers(self, codes: Tensor) -> Tensor:
        """Return signed integers of bit patterns."""
        sign = 1 << (self.width - 1)
        return (codes ^ sign) - sign

    def significands(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Return signed integers, and zeros: their exponents above `lsb_exponent`."""
        integers = self.integers(codes)
        return integers, torch.zeros_like(integers)

    def from_scaled(self, integers: Tensor, exponents: Tensor) -> Tensor:
        """Return the bit patterns nearest to `integers * 2**exponents`, exact in int64."""
        steps = binary.scaled_integer(integers.abs(), exponents - self.lsb_exponent, self.width)
        low, high = self._limits
        signed = torch.where(integers < 0, -steps, steps).clamp(low, high)
        return signed & ((1 << self.width) - 1)

    def random_codes(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Return uniform bit patterns."""
        return torch.randint(0, 1 << self.width, shape, generator=generator)
