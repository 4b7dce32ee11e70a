"""Mean of windows that share a signal out evenly (torch.nn.functional.adaptive_avg_pool1d)."""

from __future__ import annotations

from torch import nn

from mase_hw.ops._base import Example, example_values
from mase_hw.ops.pooling.adaptive_avg_pool2d import AdaptiveAvgPool2d


class AdaptiveAvgPool1d(AdaptiveAvgPool2d):
    """An image of one row."""

    name = "adaptive_avg_pool1d"
    targets = ("aten.adaptive_avg_pool1d.default",)
    dimensions = 1

    def examples(self) -> list[Example]:
        """Windows of different sizes."""
        return [(nn.AdaptiveAvgPool1d(3), (example_values(2, 3, 7),))]
