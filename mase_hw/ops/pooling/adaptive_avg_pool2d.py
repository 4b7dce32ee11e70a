"""Mean of windows that share an image out evenly (torch.nn.functional.adaptive_avg_pool2d)."""

from __future__ import annotations

from torch import nn

from mase_hw.ops._base import Call, Example, example_values
from mase_hw.ops.pooling._adaptive import AdaptivePool


class AdaptiveAvgPool2d(AdaptivePool):
    """Each sum is divided by the pixels of its window."""

    name = "adaptive_avg_pool2d"
    targets = ("aten.adaptive_avg_pool2d.default",)
    dimensions = 2

    def counts(self, call: Call) -> tuple[list[int], list[int]]:
        """The pixels of every window."""
        rows, columns = self.axes(call)
        return (rows.indices >= 0).sum(1).tolist(), (columns.indices >= 0).sum(1).tolist()

    def examples(self) -> list[Example]:
        """One window, and windows of different sizes."""
        return [
            (nn.AdaptiveAvgPool2d(1), (example_values(2, 5, 3, 4),)),
            (nn.AdaptiveAvgPool2d((3, 2)), (example_values(2, 2, 5, 3),)),
        ]
