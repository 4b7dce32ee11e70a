"""The largest of windows."""

from __future__ import annotations

from torch import Tensor, nn

from mase_hw._aten import aten
from mase_hw.ops._base import Call, Example, example
from mase_hw.ops._composite import composition
from mase_hw.ops._numbers import Numeric, Selecting
from mase_hw.ops.pooling._pool import SlidingPool
from mase_hw.ops.pooling._pool3d import Dims, argument, pooled, refuse_shape, strides


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


@composition(
    "aten.max_pool3d.default",
    examples=lambda: [
        example(nn.MaxPool3d(2), (2, 2, 2, 4, 2)),
        example(
            nn.MaxPool3d((2, 3, 2), (1, 2, 1), padding=(1, 1, 0), ceil_mode=True), (2, 1, 3, 4, 3)
        ),
    ],
    refusal=refuse_shape,
)
def max_pool3d(call: Call, data: Tensor) -> Tensor:
    """Largest element of a window of a volume (torch.nn.functional.max_pool3d)."""

    def pool(image: Tensor, dims: Dims) -> Tensor:
        return aten.max_pool2d.default(
            image,
            argument(call, "kernel_size", dims, 1),
            strides(call, dims),
            argument(call, "padding", dims, 0),
            argument(call, "dilation", dims, 1),
            call.attributes["ceil_mode"],
        )

    return pooled(call, data, pool)
