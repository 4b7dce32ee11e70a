"""Upsampling by the nearest element."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mase_hw.geometry.tensor import Order
from mase_hw.geometry.window import Axis, image_size
from mase_hw.ops._base import Call, Example, example
from mase_hw.ops._tiling import Ordered
from mase_hw.ops.convolution._images import image_orders
from mase_hw.ops.movement._gather import GatherRows


class UpsampleNearest2d(GatherRows, Ordered):
    """Nearest-neighbour upsampling of images (torch.nn.functional.interpolate, mode `nearest`).

    `y[q] = x[floor(q * size / n)]` along each axis, with torch's own scale where one is given.
    """

    name = "upsample_nearest2d"
    targets = ("aten.upsample_nearest2d.vec",)
    mode = "nearest"

    def orders(self, call: Call) -> dict[str, Order | None]:
        return image_orders(call)

    def axes(self, call: Call) -> tuple[Axis, Axis]:
        """Look up which row and column torch repeats where."""
        _, height, width = image_size(call.operands["data_in_0"])
        space = call.operands["data_in_0"].shape[2:]
        places = torch.arange(height * width).reshape(1, 1, *space)
        found = self.copy(call, places).reshape(-1, image_size(call.result)[2])
        rows, columns = found[:, 0] // width, found[0] % width
        return Axis.of(height, rows[:, None].tolist()), Axis.of(width, columns[:, None].tolist())

    def copy(self, call: Call, codes: Tensor) -> Tensor:
        upsample = torch.nn.functional.interpolate
        given = call.attributes
        size = given["output_size"]
        repeated = upsample(
            codes.double(),
            size=size,
            scale_factor=None if size else given["scale_factors"],
            mode=self.mode,
        )
        return repeated.to(torch.int64)

    def examples(self) -> list[Example]:
        """A whole factor, and a size that is none."""
        return [
            example(nn.Upsample(scale_factor=2), (2, 3, 2, 3)),
            example(nn.Upsample(size=(3, 5)), (2, 2, 2, 3)),
        ]


class UpsampleNearest1d(UpsampleNearest2d):
    """Nearest-neighbour upsampling of signals (torch.nn.functional.interpolate, mode `nearest`)."""

    name = "upsample_nearest1d"
    targets = ("aten.upsample_nearest1d.vec",)

    def examples(self) -> list[Example]:
        return [example(nn.Upsample(scale_factor=3), (2, 3, 4))]


class UpsampleNearestExact1d(UpsampleNearest2d):
    """Upsampling of signals (torch.nn.functional.interpolate, mode `nearest-exact`).

    `y[q] = x[floor((q + 1/2) * size / n)]` along each axis.
    """

    name = "upsample_nearest_exact1d"
    targets = ("aten._upsample_nearest_exact1d.vec",)
    mode = "nearest-exact"

    def examples(self) -> list[Example]:
        """A size that is no multiple."""
        return [
            example(nn.Upsample(size=7, mode="nearest-exact"), (2, 3, 4)),
        ]


class UpsampleNearestExact2d(UpsampleNearest2d):
    """Upsampling of images (torch.nn.functional.interpolate, mode `nearest-exact`).

    `y[q] = x[floor((q + 1/2) * size / n)]` along each axis.
    """

    name = "upsample_nearest_exact2d"
    targets = ("aten._upsample_nearest_exact2d.vec",)
    mode = "nearest-exact"

    def examples(self) -> list[Example]:
        """Whole factors give what `nearest` gives; others do not."""
        return [
            example(nn.Upsample(scale_factor=3, mode="nearest-exact"), (2, 2, 2, 2)),
            example(nn.Upsample(size=(3, 5), mode="nearest-exact"), (2, 2, 2, 3)),
        ]
