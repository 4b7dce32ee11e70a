"""What the binary formats share: levels of signs, on a fixed or a data-dependent scale.

Level `i` adds `+scale * 2**-i` or `-scale * 2**-i`; bit `levels - 1 - i` of a code is that sign.
The values are the odd multiples of `scale * 2**(1 - levels)`, evenly spaced.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from mase_hw._kinds import Record
from mase_hw.errors import FormatError
from mase_hw.formats._codes import CodeFormat, power_exponent
from mase_hw.formats._encoding import Encoding, Kind


@dataclass(frozen=True)
class SignFormat(CodeFormat):
    """Signs of the value and of what remains of it.

    Subclasses give `level_count` and `unit`.
    """

    sparse = True

    @property
    def level_count(self) -> int:
        """Number of signs in one code."""
        return 1

    @property
    def unit(self) -> float | None:
        """The scale; None follows the mean magnitude of the data."""
        return 1.0

    @property
    def code_bits(self) -> int:
        return self.level_count

    @property
    def code_range(self) -> tuple[int, int]:
        return 0, (1 << self.level_count) - 1

    def _known_unit(self) -> float:
        if self.unit is None:
            raise FormatError(f"{self} takes its scale from the data; codes need a fixed scale")
        return self.unit

    def _steps(self, values: Tensor, unit: float | Tensor) -> Tensor:
        """Return codes as reals: the nearest odd multiple, half way goes up."""
        step = unit * 2.0 ** (1 - self.level_count)
        low, high = self.code_range
        if high == 1:
            return (values >= 0).to(values.dtype)
        steps = torch.floor(values / (2.0 * step)) + float(1 << (self.level_count - 1))
        return steps.clamp(low, high)

    def round_values(self, values: Tensor) -> Tensor:
        """Return the nearest representable reals; zero goes up; NaN stays NaN."""
        if not values.numel():
            return values.clone()
        work = values.double()
        unit = self.unit if self.unit is not None else work.abs().mean()
        steps = 2.0 * self._steps(work, unit) - float((1 << self.level_count) - 1)
        rounded = (steps * (unit * 2.0 ** (1 - self.level_count))).to(values.dtype)
        return torch.where(torch.isnan(values), values, rounded)

    def headroom(self, values: Tensor) -> Tensor:
        """Count from 1, or from the scale where it is larger."""
        return max(1.0, self.unit or 0.0) - values.abs()

    def encode(self, values: Tensor) -> Tensor:
        if bool(torch.isnan(values).any()):
            raise FormatError(f"{self} has no code for NaN; the data holds at least one")
        return self._steps(values.detach().double(), self._known_unit()).to(torch.int64)

    def decode(self, codes: Tensor) -> Tensor:
        step = self._known_unit() * 2.0 ** (1 - self.level_count)
        return (2 * codes - self.code_range[1]).double() * step

    def from_fixed(self, codes: Tensor, frac_width: int) -> Tensor:
        """Return the code nearest to exact integers; half way goes up."""
        power = power_exponent(self._known_unit())
        if power is None:
            return self.encode(codes.double() * 2.0**-frac_width)
        # One code is worth 2 * unit * 2**(1 - levels).
        shift = frac_width + power + 2 - self.level_count
        middle = 1 << (self.level_count - 1)
        low, high = self.code_range
        if shift >= 0:
            return ((codes >> min(shift, 63)) + middle).clamp(low, high)
        bounded = codes.clamp(-(middle + 1), middle + 1) << min(-shift, self.level_count)
        return (bounded + middle).clamp(low, high)

    @property
    def integer_fraction(self) -> int | None:
        """Fraction bits of the smallest sign, for a scale that is a power of two."""
        power = None if self.unit is None else power_exponent(self.unit)
        return None if power is None else self.level_count - 1 - power

    def to_integers(self, codes: Tensor) -> Tensor:
        return 2 * codes - self.code_range[1]

    @property
    def encoding(self) -> Encoding:
        return Encoding(self.level_count, Kind.LEVELS, fraction=self.integer_fraction or 0)

    @classmethod
    def fit(cls, minimum: float, maximum: float, **fields: object) -> Self:
        return cls(**fields)


def fit_mean(cls: Any, values: Tensor, fields: Record) -> Any:
    """Return the format `cls` whose scale is the mean magnitude of `values`, if it is open."""
    if "scale" in fields or not values.numel():
        return cls(**fields)
    mean = float(values.detach().double().abs().mean())
    return cls(**{**fields, "scale": mean if mean > 0 else 1.0})
