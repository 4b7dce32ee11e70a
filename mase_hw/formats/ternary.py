"""Ternary: `-scale`, 0 and `+scale`.

Value set: three values. Magnitudes above `threshold` become `scale` with the sign of the value,
others zero; the threshold itself is zero. Infinities go to the scale; NaN is refused. With `scale`
None, both are taken from each tensor as it is rounded, which is for training: the threshold is 0.7
times the mean magnitude, the scale the mean of the magnitudes above it; codes then need fitted
numbers. The gradient passes up to 1 and up to one and a half times the scale.

Source: Li, Zhang, Liu, "Ternary Weight Networks" (2016), arXiv:1605.04711, section 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mase_hw._kinds import Setting
from mase_hw.errors import FormatError
from mase_hw.formats._checks import check_positive
from mase_hw.formats._codes import CodeFormat, power_exponent
from mase_hw.formats._encoding import Encoding, Kind

THRESHOLD_OF_MEAN = 0.7


@dataclass(frozen=True)
class Ternary(CodeFormat):
    """Three values.

    Attributes:
        scale: the magnitude, or None for the data's.
        threshold: the largest magnitude that becomes zero; half of the scale when not given.

    Examples:
        >>> Ternary().encode(torch.tensor([-0.7, 0.5, 3.0]))
        tensor([-1,  0,  1])
    """

    name = "ternary"
    abbreviation = "fixed"
    fitted = ("scale", "threshold")
    scale_follows_data = True
    sparse = True
    inherited = ()

    scale: float | None = 1.0
    threshold: float | None = None

    def __post_init__(self) -> None:
        for field in ("scale", "threshold"):
            if getattr(self, field) is not None:
                check_positive(self.name, field, getattr(self, field))
        if self.scale is not None and self.threshold is not None and self.threshold >= self.scale:
            raise FormatError(
                f"ternary: threshold is {self.threshold}; allowed: below the scale {self.scale}"
            )
        if self.scale is not None:
            border = torch.tensor(self.threshold or self.scale / 2, dtype=torch.float64)
            narrow = border.float()
            if narrow.double() > border:
                narrow = torch.nextafter(narrow, torch.tensor(0.0))
            # The largest binary32 up to the threshold: the same binary32 numbers are above either.
            object.__setattr__(self, "_narrow", float(narrow))

    def __str__(self) -> str:
        """Return a short name such as `ternary<1.0>`."""
        return f"ternary<{self.scale}>"

    @property
    def code_bits(self) -> int:
        return 2

    @property
    def code_range(self) -> tuple[int, int]:
        return -1, 1

    def _levels(self, values: Tensor) -> tuple[float | Tensor, float | Tensor]:
        if self.scale is not None:
            border = self.threshold or self.scale / 2
            narrow: float = self.__dict__["_narrow"]
            return self.scale, border if values.dtype == torch.float64 else narrow
        magnitude = values.abs()
        limit = self.threshold or THRESHOLD_OF_MEAN * magnitude.mean()
        above = (magnitude > limit).to(values.dtype)
        return (magnitude * above).sum() / above.sum().clamp(min=1.0), limit

    def round_values(self, values: Tensor) -> Tensor:
        """Return one of the three values; NaN stays NaN."""
        if not values.numel():
            return values.clone()
        work = values if values.dtype == torch.float64 else values.float()
        scale, border = self._levels(work)
        signs = (work > border).to(work.dtype) - (work < -border).to(work.dtype)
        return torch.where(torch.isnan(work), work, signs * scale).to(values.dtype)

    def headroom(self, values: Tensor) -> Tensor:
        """Count from 1, or from one and a half times the scale where that is larger."""
        return max(1.0, 1.5 * (self.scale or 0.0)) - values.abs()

    def encode(self, values: Tensor) -> Tensor:
        """Return int64 codes -1, 0, 1; refuses NaN."""
        if bool(torch.isnan(values).any()):
            raise FormatError(f"{self} has no code for NaN; the data holds at least one")
        self._known_scale()
        _, border = self._levels(values)
        work = values.detach().double()
        return (work > border).to(torch.int64) - (work < -border).to(torch.int64)

    def _known_scale(self) -> float:
        if self.scale is None:
            raise FormatError(f"{self} takes its scale from the data; codes need a fixed scale")
        return self.scale

    def decode(self, codes: Tensor) -> Tensor:
        return codes.double() * self._known_scale()

    def from_fixed(self, codes: Tensor, frac_width: int) -> Tensor:
        """Compare exact integers with the threshold."""
        border = self.threshold or self._known_scale() / 2
        # The largest integer at most the threshold, exact: a float times a power of two.
        limit = int(min(border * 2.0**frac_width, 2.0**62))
        return (codes > limit).to(torch.int64) - (codes < -limit).to(torch.int64)

    @property
    def integer_fraction(self) -> int | None:
        """Fraction bits of the scale, when it is a power of two."""
        power = None if self.scale is None else power_exponent(self.scale)
        return None if power is None else -power

    def to_integers(self, codes: Tensor) -> Tensor:
        return codes

    @property
    def encoding(self) -> Encoding:
        """Two bits, of which -2 is no code."""
        return Encoding(2, Kind.SYMMETRIC, fraction=self.integer_fraction or 0)

    @classmethod
    def fit(cls, minimum: float, maximum: float, **fields: Setting) -> Ternary:
        """Return the format whose scale is the larger end of the range."""
        largest = max(abs(minimum), abs(maximum))
        if "scale" in fields or largest == 0:
            return cls(**fields)
        return cls(**{**fields, "scale": largest})

    @classmethod
    def fit_values(cls, values: Tensor, **fields: Setting) -> Ternary:
        """Return the format whose scale and threshold are the data's."""
        if "scale" in fields or not bool((values != 0).any()):
            return cls(**fields)
        dynamic = cls(**{**fields, "scale": None})
        scale, border = (float(item) for item in dynamic._levels(values.detach().double()))
        return cls(**{**fields, "scale": scale, "threshold": border})
