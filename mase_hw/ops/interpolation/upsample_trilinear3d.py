"""Trilinear interpolation of volumes (torch.nn.functional.interpolate, mode `trilinear`)."""

from __future__ import annotations

from torch import nn

from mase_hw.ops._base import Example, example_values
from mase_hw.ops.interpolation._interpolate import Interpolation


class UpsampleTrilinear3d(Interpolation):
    """A linear map of each dimension."""

    name = "upsample_trilinear3d"
    targets = ("aten.upsample_trilinear3d.vec",)
    mode = "trilinear"
    dimensions = 3

    def examples(self) -> list[Example]:
        """Factors, and sizes with corners that stay."""
        return [
            (nn.Upsample(scale_factor=2, mode="trilinear"), (example_values(2, 1, 2, 2, 3),)),
        ]
