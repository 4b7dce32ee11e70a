"""Channels that become pixels (torch.nn.PixelShuffle; arXiv:1609.05158)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mase_hw.ops._base import Call, Example, example_values
from mase_hw.ops.movement._layout import Layout


class PixelShuffle(Layout):
    """`y[c, h r + i, w r + j] = x[(c r + i) r + j, h, w]`."""

    name = "pixel_shuffle"
    targets = ("aten.pixel_shuffle.default",)

    def move(self, call: Call, tensor: Tensor) -> Tensor:
        """Move the elements of every inference."""
        return torch.pixel_shuffle(tensor, int(call.attributes["upscale_factor"]))

    def examples(self) -> list[Example]:
        """Two images for each inference."""
        return [
            (nn.PixelShuffle(2), (example_values(2, 8, 2, 3),)),
        ]
