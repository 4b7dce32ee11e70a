"""Upsampling by weights of the elements around."""

from __future__ import annotations

from torch import nn

from mase_hw.ops._base import Example, example
from mase_hw.ops.interpolation._interpolate import Interpolation


class UpsampleLinear1d(Interpolation):
    """Linear interpolation of signals (torch.nn.functional.interpolate, mode `linear`)."""

    name = "upsample_linear1d"
    targets = ("aten.upsample_linear1d.vec",)
    mode = "linear"
    dimensions = 1

    def examples(self) -> list[Example]:
        return [
            example(nn.Upsample(scale_factor=2, mode="linear"), (2, 3, 4)),
        ]


class UpsampleBilinear2d(Interpolation):
    """Bilinear interpolation of images (torch.nn.functional.interpolate, mode `bilinear`)."""

    name = "upsample_bilinear2d"
    targets = ("aten.upsample_bilinear2d.vec",)
    mode = "bilinear"
    dimensions = 2

    def examples(self) -> list[Example]:
        return [
            example(nn.Upsample(scale_factor=2, mode="bilinear"), (2, 2, 3, 2)),
            example(nn.Upsample(size=(5, 3), mode="bilinear", align_corners=True), (2, 2, 3, 2)),
        ]


class UpsampleTrilinear3d(Interpolation):
    """Trilinear interpolation of volumes (torch.nn.functional.interpolate, mode `trilinear`)."""

    name = "upsample_trilinear3d"
    targets = ("aten.upsample_trilinear3d.vec",)
    mode = "trilinear"
    dimensions = 3

    def examples(self) -> list[Example]:
        return [
            example(nn.Upsample(scale_factor=2, mode="trilinear"), (2, 1, 2, 2, 3)),
        ]


class UpsampleBicubic2d(Interpolation):
    """Bicubic interpolation of images (torch.nn.functional.interpolate, mode `bicubic`)."""

    name = "upsample_bicubic2d"
    targets = ("aten.upsample_bicubic2d.vec",)
    mode = "bicubic"
    dimensions = 2

    def examples(self) -> list[Example]:
        return [
            example(nn.Upsample(scale_factor=(2, 1.5), mode="bicubic"), (2, 1, 3, 4)),
        ]
