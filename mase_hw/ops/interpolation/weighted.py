"""Interpolation by weights of the elements around (torch.nn.functional.interpolate)."""

from __future__ import annotations

from torch import nn

from mase_hw.ops._base import example
from mase_hw.ops.interpolation._interpolate import Interpolation

INTERPOLATIONS = (
    Interpolation(
        "linear",
        1,
        lambda: [example(nn.Upsample(scale_factor=2, mode="linear"), (2, 3, 4))],
    ),
    Interpolation(
        "bilinear",
        2,
        lambda: [
            example(nn.Upsample(scale_factor=2, mode="bilinear"), (2, 2, 3, 2)),
            example(nn.Upsample(size=(5, 3), mode="bilinear", align_corners=True), (2, 2, 3, 2)),
        ],
    ),
    Interpolation(
        "trilinear",
        3,
        lambda: [example(nn.Upsample(scale_factor=2, mode="trilinear"), (2, 1, 2, 2, 3))],
    ),
    Interpolation(
        "bicubic",
        2,
        lambda: [example(nn.Upsample(scale_factor=(2, 1.5), mode="bicubic"), (2, 1, 3, 4))],
    ),
)
