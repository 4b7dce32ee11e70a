"""Exchanges between channels, or of channels and pixels."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mase_hw.ops._base import Call, Example, example
from mase_hw.ops.movement._layout import Layout


class PixelShuffle(Layout):
    """Channels that become pixels (torch.nn.PixelShuffle; arXiv:1609.05158)."""

    name = "pixel_shuffle"
    targets = ("aten.pixel_shuffle.default",)

    def move(self, call: Call, tensor: Tensor) -> Tensor:
        return torch.pixel_shuffle(tensor, int(call.attributes["upscale_factor"]))

    def examples(self) -> list[Example]:
        return [
            example(nn.PixelShuffle(2), (2, 8, 2, 3)),
        ]


class PixelUnshuffle(Layout):
    """Pixels that become channels (torch.nn.PixelUnshuffle)."""

    name = "pixel_unshuffle"
    targets = ("aten.pixel_unshuffle.default",)

    def move(self, call: Call, tensor: Tensor) -> Tensor:
        return torch.pixel_unshuffle(tensor, int(call.attributes["downscale_factor"]))

    def examples(self) -> list[Example]:
        return [
            example(nn.PixelUnshuffle(2), (2, 2, 4, 6)),
        ]


class ChannelShuffle(Layout):
    """Channels of groups, one of each in turn (torch.nn.ChannelShuffle; arXiv:1707.01083)."""

    name = "channel_shuffle"
    targets = (
        "aten.channel_shuffle.default",
        "aten.native_channel_shuffle.default",
    )

    def move(self, call: Call, tensor: Tensor) -> Tensor:
        groups = int(call.attributes["groups"])
        apart = tensor.reshape(len(tensor), groups, -1, *tensor.shape[2:])
        return apart.transpose(1, 2).flatten(1, 2)

    def examples(self) -> list[Example]:
        return [
            example(nn.ChannelShuffle(3), (2, 6, 2, 3)),
        ]
