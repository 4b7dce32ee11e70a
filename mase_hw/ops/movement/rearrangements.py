"""Exchanges of channels and pixels, rows turned round."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mase_hw.ops._base import example
from mase_hw.ops.movement._rearrangement import Rearrangement


def _shuffled(tensor: Tensor, groups: int) -> Tensor:
    apart = tensor.reshape(len(tensor), groups, -1, *tensor.shape[2:])
    return apart.transpose(1, 2).flatten(1, 2)


REARRANGEMENTS = (
    # Channels that become pixels, arXiv:1609.05158.
    Rearrangement(
        "pixel_shuffle",
        "pixel_shuffle",
        torch.pixel_shuffle,
        lambda: [example(nn.PixelShuffle(2), (2, 8, 2, 3))],
    ),
    Rearrangement(
        "pixel_unshuffle",
        "pixel_unshuffle",
        torch.pixel_unshuffle,
        lambda: [example(nn.PixelUnshuffle(2), (2, 2, 4, 6))],
    ),
    # Channels of groups, one of each in turn, arXiv:1707.01083.
    Rearrangement(
        "channel_shuffle",
        "channel_shuffle native_channel_shuffle",
        _shuffled,
        lambda: [example(nn.ChannelShuffle(3), (2, 6, 2, 3))],
    ),
    Rearrangement(
        "flip",
        "flip",
        torch.flip,
        lambda: [
            example(lambda x: x.flip(-1), (2, 3, 5)),
            example(lambda x: x.flip([1, 3]), (2, 3, 2, 4)),
        ],
    ),
    Rearrangement(
        "roll",
        "roll",
        torch.roll,
        lambda: [
            example(lambda x: x.roll(2, -1), (2, 3, 5)),
            example(lambda x: x.roll((1, -1), (1, 2)), (2, 3, 4, 2)),
        ],
    ),
)
