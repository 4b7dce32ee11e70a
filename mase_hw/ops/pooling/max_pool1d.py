"""Largest element of a window (torch.nn.functional.max_pool1d)."""

from __future__ import annotations

from torch import nn

from mase_hw.ops._base import Example, example_values
from mase_hw.ops.pooling.max_pool2d import MaxPool2d


class MaxPool1d(MaxPool2d):
    """An image of one row."""

    name = "max_pool1d"
    targets = ("aten.max_pool1d.default",)
    dimensions = 1

    def examples(self) -> list[Example]:
        return [(nn.MaxPool1d(3, 2, padding=1, dilation=2), (example_values(2, 3, 9),))]
