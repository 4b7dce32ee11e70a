"""Convolution of signals (torch.nn.functional.conv1d), zeros outside."""

from __future__ import annotations

from torch import nn

from mase_hw.ops._base import Example, example_values
from mase_hw.ops.convolution.conv2d import Conv2d


class Conv1d(Conv2d):
    """An image of one row."""

    name = "conv1d"
    targets = ("aten.conv1d.default", "aten.conv1d.padding")
    dimensions = 1

    def examples(self) -> list[Example]:
        return [
            (nn.Conv1d(3, 4, 3, stride=2, padding=2), (example_values(2, 3, 9),)),
        ]
