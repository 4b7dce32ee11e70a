"""Convolution of signals (torch.nn.functional.conv1d), zeros outside."""

from __future__ import annotations

from typing import ClassVar

from mase_hw.ops.conv2d import Conv2d


class Conv1d(Conv2d):
    """An image of one row."""

    name: ClassVar[str] = "conv1d"
    targets: ClassVar[tuple[str, ...]] = ("aten.conv1d.default", "aten.conv1d.padding")
    dimensions: ClassVar[int] = 1
