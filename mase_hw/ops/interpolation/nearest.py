"""Upsampling by the nearest element."""

from __future__ import annotations

from torch import nn

from mase_hw.ops._base import example
from mase_hw.ops.interpolation._nearest import UpsampleNearest

UPSAMPLINGS = (
    UpsampleNearest(
        "upsample_nearest1d",
        "upsample_nearest1d",
        "nearest",
        lambda: [example(nn.Upsample(scale_factor=3), (2, 3, 4))],
    ),
    UpsampleNearest(
        "upsample_nearest2d",
        "upsample_nearest2d",
        "nearest",
        lambda: [
            example(nn.Upsample(scale_factor=2), (2, 3, 2, 3)),
            example(nn.Upsample(size=(3, 5)), (2, 2, 2, 3)),
        ],
    ),
    UpsampleNearest(
        "upsample_nearest_exact1d",
        "_upsample_nearest_exact1d",
        "nearest-exact",
        lambda: [example(nn.Upsample(size=7, mode="nearest-exact"), (2, 3, 4))],
    ),
    # Whole factors give what `nearest` gives; others do not.
    UpsampleNearest(
        "upsample_nearest_exact2d",
        "_upsample_nearest_exact2d",
        "nearest-exact",
        lambda: [
            example(nn.Upsample(scale_factor=3, mode="nearest-exact"), (2, 2, 2, 2)),
            example(nn.Upsample(size=(3, 5), mode="nearest-exact"), (2, 2, 2, 3)),
        ],
    ),
)
