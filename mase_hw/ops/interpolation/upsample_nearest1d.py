"""Nearest-neighbour upsampling of signals (torch.nn.functional.interpolate, mode `nearest`)."""

from __future__ import annotations

from torch import nn

from mase_hw.ops._base import Example, example_values
from mase_hw.ops.interpolation.upsample_nearest2d import UpsampleNearest2d


class UpsampleNearest1d(UpsampleNearest2d):
    """An image of one row."""

    name = "upsample_nearest1d"
    targets = ("aten.upsample_nearest1d.vec",)

    def examples(self) -> list[Example]:
        """Three times as long."""
        return [(nn.Upsample(scale_factor=3), (example_values(2, 3, 4),))]
