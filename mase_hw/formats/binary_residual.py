"""Binary with residual signs: the sign of the value, of what remains of it, and so on.

Value set: `scale * (s_0 + s_1 / 2 + ... + s_(levels-1) / 2**(levels-1))` with signs -1 and +1:
evenly spaced and without zero; each sign halves what remains. Zero and values half way go up; what
exceeds the largest value saturates, infinities too; NaN is refused. `scale` None takes the mean
magnitude of each tensor as it is rounded, which is for training. The gradient passes up to 1 and up
to the scale.

Source: Ghasemzadeh, Samragh, Koushanfar, "ReBNet: Residual Binarized Neural Network" (2018),
arXiv:1711.01243, section III, with scales that halve from level to level.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from torch import Tensor

from mase_hw.formats._checks import check_integer, check_positive
from mase_hw.formats._sign import SignFormat, fit_mean


@dataclass(frozen=True)
class BinaryResidual(SignFormat):
    """Signs of residuals.

    Attributes:
        levels: number of signs, 1 to 8.
        scale: the first sign's magnitude, or None for the mean magnitude of the data.

    Examples:
        >>> BinaryResidual(2, 1.0).round_values(torch.tensor([-0.2, 3.0]))
        tensor([-0.5000,  1.5000])
    """

    name = "binary_residual"
    aliases = ("binary_residual_sign",)
    abbreviation = "binary"
    fitted = ("scale",)
    scale_follows_data = True
    inherited = ("levels",)

    levels: int = 2
    scale: float | None = 1.0

    def __post_init__(self) -> None:
        check_integer(self.name, "levels", self.levels, 1, 8)
        if self.scale is not None:
            check_positive(self.name, "scale", self.scale)

    def __str__(self) -> str:
        """Return a short name such as `binary_residual<2,1.0>`."""
        return f"{self.name}<{self.levels},{self.scale}>"

    @property
    def level_count(self) -> int:
        return self.levels

    @property
    def unit(self) -> float | None:
        return self.scale

    @classmethod
    def fit_values(cls, values: Tensor, **fields: object) -> Self:
        result: Self = fit_mean(cls, values, fields)
        return result
