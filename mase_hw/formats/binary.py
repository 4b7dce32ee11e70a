"""Binary: one bit, -1 and +1, or 0 and 1.

Value set: `{-1, +1}` when `bipolar`, split at zero, which is +1; else `{0, 1}`, split at one half,
which is 1. Everything else goes to the nearer value; infinities too; there is no zero in the
bipolar set; NaN is refused. With `stochastic`, values between the two become the upper one with the
probability that makes their mean right, when they are rounded, and the nearer one when they are
encoded or used at inference. The gradient passes from -1 to 1, and from 0 to 1 within half a step
when not bipolar.

Source: Courbariaux, Hubara, Soudry, El-Yaniv, Bengio, "Binarized Neural Networks" (2016),
arXiv:1602.02830, sections 1.1 and 1.3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mase_hw.formats._checks import check_bool
from mase_hw.formats._encoding import Encoding, Rounding
from mase_hw.formats._sign import SignFormat


@dataclass(frozen=True)
class Binary(SignFormat):
    """One bit.

    Attributes:
        bipolar: -1 and +1 when true, 0 and 1 when false.
        stochastic: round at random in proportion.

    Examples:
        >>> Binary().round_values(torch.tensor([-0.2, 0.0, 3.0]))
        tensor([-1.,  1.,  1.])
    """

    name = "binary"
    abbreviation = "binary"
    inherited = ("bipolar",)

    bipolar: bool = True
    stochastic: bool = False

    def __post_init__(self) -> None:
        check_bool(self.name, "bipolar", self.bipolar)
        check_bool(self.name, "stochastic", self.stochastic)

    def __str__(self) -> str:
        """Return `binary<-1,1>` or `binary<0,1>`."""
        return "binary<-1,1>" if self.bipolar else "binary<0,1>"

    def at_inference(self) -> Binary:
        return replace(self, stochastic=False)

    @property
    def _low(self) -> float:
        return -1.0 if self.bipolar else 0.0

    def round_values(self, values: Tensor) -> Tensor:
        """Return one of the two values; NaN stays NaN."""
        upper = self._steps(values, 1.0)
        if self.stochastic:
            position = (values - self._low) / (1.0 - self._low)
            upper = (position > torch.rand_like(values)).to(values.dtype)
        rounded = self._low + upper * (1.0 - self._low)
        return torch.where(torch.isnan(values), values, rounded)

    def headroom(self, values: Tensor) -> Tensor:
        """Count from -1 and 1, or from -0.5 and 1.5."""
        return 1.0 - (values if self.bipolar else values - 0.5).abs()

    def _steps(self, values: Tensor, unit: float | Tensor) -> Tensor:
        return (values >= (0.0 if self.bipolar else 0.5)).to(values.dtype)

    def decode(self, codes: Tensor) -> Tensor:
        return self.to_integers(codes).double()

    def from_fixed(self, codes: Tensor, frac_width: int) -> Tensor:
        """Compare exact integers with the border."""
        if self.bipolar:
            return (codes >= 0).to(torch.int64)
        if frac_width <= 0:
            return (codes > 0).to(torch.int64)
        return (codes >= 1 << min(frac_width - 1, 62)).to(torch.int64)

    def to_integers(self, codes: Tensor) -> Tensor:
        """Return -1 and 1, or 0 and 1."""
        return 2 * codes - 1 if self.bipolar else codes

    @property
    def encoding(self) -> Encoding:
        """A sign; or 0 and 1, half way up."""
        if self.bipolar:
            return super().encoding
        return Encoding(1, signed=False, rounding=Rounding.NEAREST_UP)
