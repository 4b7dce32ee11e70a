"""Pixels that become channels (torch.nn.PixelUnshuffle)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mase_hw.ops._base import Call, Example, example_values
from mase_hw.ops.movement._layout import Layout


class PixelUnshuffle(Layout):
    """`y[(c r + i) r + j, h, w] = x[c, h r + i, w r + j]`."""

    name = "pixel_unshuffle"
    targets = ("aten.pixel_unshuffle.default",)

    def move(self, call: Call, tensor: Tensor) -> Tensor:
        """Move the elements of every inference."""
        return torch.pixel_unshuffle(tensor, int(call.attributes["downscale_factor"]))

    def examples(self) -> list[Example]:
        return [
            (nn.PixelUnshuffle(2), (example_values(2, 2, 4, 6),)),
        ]
