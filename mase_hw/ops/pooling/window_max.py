"""Largest pixel of each of the windows that are listed (see `_windows`)."""

from __future__ import annotations

import torch
from torch import Tensor

from mase_hw.ops._base import Apply, Example, example_values
from mase_hw.ops._library import define_listed
from mase_hw.ops._numbers import Numeric, Selecting
from mase_hw.ops.pooling._windows import ListedWindows, windows_of


def window_max(values: Tensor, rows: list[int], columns: list[int], kernel: list[int]) -> Tensor:
    """Return the largest pixels, `[batch, channels, rows of windows, columns of windows]`."""
    largest = windows_of(values, rows, columns, kernel).amax(2)
    return largest.reshape(*values.shape[:2], -1, len(columns) // kernel[1])


define_listed("window_max", window_max, None)


class WindowMax(ListedWindows, Selecting, Numeric):
    """Pixels outside the image never win."""

    name = "window_max"
    targets = ("mase.window_max.default",)
    keeps_format = True

    def examples(self) -> list[Example]:
        """Windows at distances of their own."""
        target = torch.ops.mase.window_max.default
        windows = [0, 1, 2, 3], [0, 1, 3, 4, 4, 5], [2, 2]
        return [(Apply(lambda x: target(x, *windows)), (example_values(2, 3, 4, 6),))]
