"""Mean of a window (torch.nn.functional.avg_pool1d)."""

from __future__ import annotations

from torch import nn

from mase_hw.ops._base import Example, example_values
from mase_hw.ops.pooling.avg_pool2d import AvgPool2d


class AvgPool1d(AvgPool2d):
    """An image of one row."""

    name = "avg_pool1d"
    targets = ("aten.avg_pool1d.default",)
    dimensions = 1

    def examples(self) -> list[Example]:
        return [(nn.AvgPool1d(3, 2), (example_values(2, 3, 9),))]
