"""Largest element of windows that share a signal out (torch.nn.functional.adaptive_max_pool1d)."""

from __future__ import annotations

from torch import nn
from torch.nn.functional import adaptive_max_pool1d

from mase_hw.ops._base import Example, example_values
from mase_hw.ops._library import define_sized
from mase_hw.ops.pooling.adaptive_max_pool2d import AdaptiveMaxPool2d

define_sized("adaptive_max_pool1d", lambda values, size: adaptive_max_pool1d(values, size))


class AdaptiveMaxPool1d(AdaptiveMaxPool2d):
    """An image of one row."""

    name = "adaptive_max_pool1d"
    targets = (
        "mase.adaptive_max_pool1d.default",
        "aten.adaptive_max_pool1d.default",
    )
    dimensions = 1

    def examples(self) -> list[Example]:
        """Windows of different sizes."""
        return [(nn.AdaptiveMaxPool1d(3), (example_values(2, 3, 7),))]
