"""Channels of groups, one of each in turn (torch.nn.ChannelShuffle; arXiv:1707.01083)."""

from __future__ import annotations

from torch import Tensor, nn

from mase_hw.ops._base import Call, Example, example_values
from mase_hw.ops.movement._layout import Layout


class ChannelShuffle(Layout):
    """`y[i g + j] = x[j n + i]` for g groups of n channels."""

    name = "channel_shuffle"
    targets = (
        "aten.channel_shuffle.default",
        "aten.native_channel_shuffle.default",
    )

    def move(self, call: Call, tensor: Tensor) -> Tensor:
        """Move the elements of every inference."""
        groups = int(call.attributes["groups"])
        apart = tensor.reshape(len(tensor), groups, -1, *tensor.shape[2:])
        return apart.transpose(1, 2).flatten(1, 2)

    def examples(self) -> list[Example]:
        return [
            (nn.ChannelShuffle(3), (example_values(2, 6, 2, 3),)),
        ]
