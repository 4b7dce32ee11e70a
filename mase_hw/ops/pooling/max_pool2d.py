"""Largest pixel of a window (torch.nn.functional.max_pool2d)."""

from __future__ import annotations

from torch import nn

from mase_hw.ops._base import Example, example_values
from mase_hw.ops._numbers import Numeric, Selecting
from mase_hw.ops.pooling._pool import SlidingPool


class MaxPool2d(SlidingPool, Selecting, Numeric):
    """Pixels outside the image never win."""

    name = "max_pool2d"
    targets = ("aten.max_pool2d.default",)
    dimensions = 2
    maximum = True
    keeps_format = True

    def examples(self) -> list[Example]:
        """Windows apart; windows that overlap, with padding and a rounded-up size."""
        return [
            (nn.MaxPool2d(2), (example_values(2, 3, 4, 6),)),
            (nn.MaxPool2d(3, 2, padding=1, ceil_mode=True), (example_values(2, 5, 4, 5),)),
        ]
