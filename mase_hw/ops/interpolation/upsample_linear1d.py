"""Linear interpolation of signals (torch.nn.functional.interpolate, mode `linear`)."""

from __future__ import annotations

from torch import nn

from mase_hw.ops._base import Example, example_values
from mase_hw.ops.interpolation._interpolate import Interpolation


class UpsampleLinear1d(Interpolation):
    """A linear map of each dimension."""

    name = "upsample_linear1d"
    targets = ("aten.upsample_linear1d.vec",)
    mode = "linear"
    dimensions = 1

    def examples(self) -> list[Example]:
        """Factors, and sizes with corners that stay."""
        return [
            (nn.Upsample(scale_factor=2, mode="linear"), (example_values(2, 3, 4),)),
        ]
