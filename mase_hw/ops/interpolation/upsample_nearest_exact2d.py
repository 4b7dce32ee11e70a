"""Upsampling of images (torch.nn.functional.interpolate, mode `nearest-exact`).

`y[q] = x[floor((q + 1/2) * size / n)]` along each axis.
"""

from __future__ import annotations

from torch import nn

from mase_hw.ops._base import Example, example_values
from mase_hw.ops.interpolation.upsample_nearest2d import UpsampleNearest2d


class UpsampleNearestExact2d(UpsampleNearest2d):
    """As `nearest`, from the middle of each pixel."""

    name = "upsample_nearest_exact2d"
    targets = ("aten._upsample_nearest_exact2d.vec",)
    mode = "nearest-exact"

    def examples(self) -> list[Example]:
        """Whole factors give what `nearest` gives; others do not."""
        return [
            (nn.Upsample(scale_factor=3, mode="nearest-exact"), (example_values(2, 2, 2, 2),)),
            (nn.Upsample(size=(3, 5), mode="nearest-exact"), (example_values(2, 2, 2, 3),)),
        ]
