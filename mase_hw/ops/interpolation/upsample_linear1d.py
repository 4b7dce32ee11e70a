"""Linear interpolation of signals (torch.nn.functional.interpolate, mode `linear`)."""

from __future__ import annotations

from typing import ClassVar

from torch import nn

from mase_hw.ops._base import Example, example_values
from mase_hw.ops.interpolation._interpolate import Interpolation


class UpsampleLinear1d(Interpolation):
    """A linear map of each dimension."""

    name: ClassVar[str] = "upsample_linear1d"
    targets: ClassVar[tuple[str, ...]] = ("aten.upsample_linear1d.vec",)
    mode: ClassVar[str] = "linear"
    dimensions: ClassVar[int] = 1

    def examples(self) -> list[Example]:
        """Factors, and sizes with corners that stay."""
        return [
            (nn.Upsample(scale_factor=2, mode="linear"), (example_values(2, 3, 4),)),
        ]
