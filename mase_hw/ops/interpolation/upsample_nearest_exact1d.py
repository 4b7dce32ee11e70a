"""Upsampling of signals (torch.nn.functional.interpolate, mode `nearest-exact`).

`y[q] = x[floor((q + 1/2) * size / n)]` along each axis.
"""

from __future__ import annotations

from torch import nn

from mase_hw.ops._base import Example, example_values
from mase_hw.ops.interpolation.upsample_nearest2d import UpsampleNearest2d


class UpsampleNearestExact1d(UpsampleNearest2d):
    """As `nearest`, from the middle of each pixel."""

    name = "upsample_nearest_exact1d"
    targets = ("aten._upsample_nearest_exact1d.vec",)
    mode = "nearest-exact"

    def examples(self) -> list[Example]:
        """A size that is no multiple."""
        return [
            (nn.Upsample(size=7, mode="nearest-exact"), (example_values(2, 3, 4),)),
        ]
