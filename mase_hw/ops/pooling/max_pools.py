"""The largest of windows."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from mase_hw._aten import aten
from mase_hw.ops._base import Call, Example, example
from mase_hw.ops._numbers import Numeric, Selecting
from mase_hw.ops.pooling._pool import SlidingPool
from mase_hw.ops.pooling._pool3d import Pool3d


class MaxPool2d(SlidingPool, Selecting, Numeric):
    """Largest pixel of a window (torch.nn.functional.max_pool2d)."""

    name = "max_pool2d"
    targets = ("aten.max_pool2d.default",)
    dimensions = 2
    maximum = True
    keeps_format = True

    def examples(self) -> list[Example]:
        return [
            example(nn.MaxPool2d(2), (2, 3, 4, 6)),
            example(nn.MaxPool2d(3, 2, padding=1, ceil_mode=True), (2, 5, 4, 5)),
        ]


class MaxPool1d(MaxPool2d):
    """Largest element of a window (torch.nn.functional.max_pool1d)."""

    name = "max_pool1d"
    targets = ("aten.max_pool1d.default",)
    dimensions = 1

    def examples(self) -> list[Example]:
        return [example(nn.MaxPool1d(3, 2, padding=1, dilation=2), (2, 3, 9))]


class MaxPool3d(Pool3d):
    """Largest element of a window of a volume (torch.nn.functional.max_pool3d)."""

    name = "max_pool3d"
    targets = ("aten.max_pool3d.default",)

    def pooled(self, call: Call, image: Tensor, dims: Sequence[int | None]) -> Tensor:
        return aten.max_pool2d.default(
            image,
            self.given(call, "kernel_size", dims, 1),
            self.strides(call, dims),
            self.given(call, "padding", dims, 0),
            self.given(call, "dilation", dims, 1),
            call.attributes["ceil_mode"],
        )

    def examples(self) -> list[Example]:
        return [
            example(nn.MaxPool3d(2), (2, 2, 2, 4, 2)),
            example(
                nn.MaxPool3d((2, 3, 2), (1, 2, 1), padding=(1, 1, 0), ceil_mode=True),
                (2, 1, 3, 4, 3),
            ),
        ]
