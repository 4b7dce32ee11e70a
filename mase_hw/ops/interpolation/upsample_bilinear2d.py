"""Bilinear interpolation of images (torch.nn.functional.interpolate, mode `bilinear`)."""

from __future__ import annotations

from torch import nn

from mase_hw.ops._base import Example, example_values
from mase_hw.ops.interpolation._interpolate import Interpolation


class UpsampleBilinear2d(Interpolation):
    """A linear map of each dimension."""

    name = "upsample_bilinear2d"
    targets = ("aten.upsample_bilinear2d.vec",)
    mode = "bilinear"
    dimensions = 2

    def examples(self) -> list[Example]:
        """Factors, and sizes with corners that stay."""
        return [
            (nn.Upsample(scale_factor=2, mode="bilinear"), (example_values(2, 2, 3, 2),)),
            (
                nn.Upsample(size=(5, 3), mode="bilinear", align_corners=True),
                (example_values(2, 2, 3, 2),),
            ),
        ]
