"""Binary with a scale: `-scale` and `+scale`.

Value set: two values, split at zero, which goes up. `scale` None takes the mean magnitude of each
tensor as it is rounded, which is for training; codes then need a scale that was fitted. There is no
zero; infinities go to the nearer value; NaN is refused. The gradient passes up to 1 and up to the
scale.

Source: Rastegari, Ordonez, Redmon, Farhadi, "XNOR-Net: ImageNet Classification Using Binary
Convolutional Neural Networks" (2016), arXiv:1603.05279, section 3.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from torch import Tensor

from mase_hw.formats._checks import check_positive
from mase_hw.formats._sign import SignFormat, fit_mean


@dataclass(frozen=True)
class BinaryScaling(SignFormat):
    """One bit with a scale.

    Attributes:
        scale: the magnitude, or None for the mean magnitude of the data.

    Examples:
        >>> BinaryScaling(0.5).round_values(torch.tensor([-0.2, 3.0]))
        tensor([-0.5000,  0.5000])
    """

    name = "binary_scaling"
    abbreviation = "binary"
    fitted = ("scale",)
    scale_follows_data = True
    inherited = ()

    scale: float | None = 1.0

    def __post_init__(self) -> None:
        if self.scale is not None:
            check_positive(self.name, "scale", self.scale)

    def __str__(self) -> str:
        """Return a short name such as `binary_scaling<0.5>`."""
        return f"{self.name}<{self.scale}>"

    @property
    def unit(self) -> float | None:
        return self.scale

    @classmethod
    def fit_values(cls, values: Tensor, **fields: object) -> Self:
        result: Self = fit_mean(cls, values, fields)
        return result
