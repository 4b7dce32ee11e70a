"""Largest pixel of each of the windows that are listed (see `_windows`)."""

from __future__ import annotations

import torch
from torch import Tensor

from mase_hw.ops._base import Example, example
from mase_hw.ops._library import define
from mase_hw.ops._numbers import Numeric, Selecting
from mase_hw.ops.pooling._windows import WINDOWS, ListedWindows, empty_result, windows_of


def window_max(values: Tensor, rows: list[int], columns: list[int], kernel: list[int]) -> Tensor:
    """Return the largest pixels, `[batch, channels, rows of windows, columns of windows]`."""
    largest = windows_of(values, rows, columns, kernel).amax(2)
    return largest.reshape(*values.shape[:2], -1, len(columns) // kernel[1])


define(f"window_max{WINDOWS}", window_max, opaque=True, shapes=empty_result)


class WindowMax(ListedWindows, Selecting, Numeric):
    """Pixels outside the image never win."""

    name = "window_max"
    targets = ("mase.window_max.default",)
    keeps_format = True

    def examples(self) -> list[Example]:
        target = torch.ops.mase.window_max.default
        windows = [0, 1, 2, 3], [0, 1, 3, 4, 4, 5], [2, 2]
        return [example(lambda x: target(x, *windows), (2, 3, 4, 6))]
