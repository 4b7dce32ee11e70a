"""Exchanges of channels and pixels, rows turned round."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from mase_hw.ops._base import Call, Example, along_batch, example, overloads
from mase_hw.ops.movement._moves import Layout


class _Rearrangement(Layout):
    """A move of elements.

    Args:
        name: of the operator.
        targets: torch operators of the default overload.
        move: takes the tensor, and the other arguments of the call by name.
        examples: see `Operator`.
    """

    def __init__(
        self,
        name: str,
        targets: str,
        move: Callable[..., Tensor],
        examples: Callable[[], list[Example]],
    ) -> None:
        self.name, self.targets = name, overloads(targets)
        self._move, self._examples = move, examples

    def problems(self, call: Call) -> list[str]:
        problems, dims = super().problems(call), call.attributes.get("dims")
        if dims is not None and 0 in [int(dim) % len(call.result.shape) for dim in dims or (0,)]:
            problems.append(along_batch("it moves", "name the other dimensions"))
        return problems

    def move(self, call: Call, tensor: Tensor) -> Tensor:
        return self._move(tensor, **call.attributes)

    def examples(self) -> list[Example]:
        return self._examples()


def _shuffled(tensor: Tensor, groups: int) -> Tensor:
    apart = tensor.reshape(len(tensor), groups, -1, *tensor.shape[2:])
    return apart.transpose(1, 2).flatten(1, 2)


REARRANGEMENTS = (
    # Channels that become pixels, arXiv:1609.05158.
    _Rearrangement(
        "pixel_shuffle",
        "pixel_shuffle",
        torch.pixel_shuffle,
        lambda: [example(nn.PixelShuffle(2), (2, 8, 2, 3))],
    ),
    _Rearrangement(
        "pixel_unshuffle",
        "pixel_unshuffle",
        torch.pixel_unshuffle,
        lambda: [example(nn.PixelUnshuffle(2), (2, 2, 4, 6))],
    ),
    # Channels of groups, one of each in turn, arXiv:1707.01083.
    _Rearrangement(
        "channel_shuffle",
        "channel_shuffle native_channel_shuffle",
        _shuffled,
        lambda: [example(nn.ChannelShuffle(3), (2, 6, 2, 3))],
    ),
    _Rearrangement(
        "flip",
        "flip",
        torch.flip,
        lambda: [
            example(lambda x: x.flip(-1), (2, 3, 5)),
            example(lambda x: x.flip([1, 3]), (2, 3, 2, 4)),
        ],
    ),
    _Rearrangement(
        "roll",
        "roll",
        torch.roll,
        lambda: [
            example(lambda x: x.roll(2, -1), (2, 3, 5)),
            example(lambda x: x.roll((1, -1), (1, 2)), (2, 3, 4, 2)),
        ],
    ),
)
