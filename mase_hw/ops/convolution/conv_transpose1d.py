"""Transposed convolution of signals (torch.nn.functional.conv_transpose1d)."""

from __future__ import annotations

from torch import nn

from mase_hw.ops._base import Example, example_values
from mase_hw.ops.convolution.conv_transpose2d import ConvTranspose2d


class ConvTranspose1d(ConvTranspose2d):
    """An image of one row."""

    name = "conv_transpose1d"
    targets = ("aten.conv_transpose1d.default",)
    dimensions = 1

    def examples(self) -> list[Example]:
        return [
            (nn.ConvTranspose1d(3, 3, 4, stride=2, padding=1), (example_values(2, 3, 5),)),
        ]
