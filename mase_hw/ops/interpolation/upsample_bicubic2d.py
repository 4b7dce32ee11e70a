"""Bicubic interpolation of images (torch.nn.functional.interpolate, mode `bicubic`)."""

from __future__ import annotations

from torch import nn

from mase_hw.ops._base import Example, example_values
from mase_hw.ops.interpolation._interpolate import Interpolation


class UpsampleBicubic2d(Interpolation):
    """A linear map of each dimension."""

    name = "upsample_bicubic2d"
    targets = ("aten.upsample_bicubic2d.vec",)
    mode = "bicubic"
    dimensions = 2

    def examples(self) -> list[Example]:
        """Factors, and sizes with corners that stay."""
        return [
            (nn.Upsample(scale_factor=(2, 1.5), mode="bicubic"), (example_values(2, 1, 3, 4),)),
        ]
