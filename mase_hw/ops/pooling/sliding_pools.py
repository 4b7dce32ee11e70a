"""Largest elements and means of windows that slide."""

from __future__ import annotations

from torch import Tensor, nn

from mase_hw._aten import aten
from mase_hw.ops._base import Call, Example, example
from mase_hw.ops._composite import composition
from mase_hw.ops._interfaces import Numeric, Selecting
from mase_hw.ops.pooling._pool import Dims, SlidingPool, argument, pooled, refuse_shape, strides


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


class AvgPool2d(SlidingPool):
    """Mean of a window (torch.nn.functional.avg_pool2d), an exact sum divided and rounded once."""

    name = "avg_pool2d"
    targets = ("aten.avg_pool2d.default",)
    dimensions = 2

    def counts(self, call: Call) -> tuple[list[int], list[int]]:
        rows, columns = self.axes(call)
        divisor = call.attributes.get("divisor_override")
        if divisor:
            return [int(divisor)] * rows.positions, [1] * columns.positions
        if not call.attributes["count_include_pad"]:
            inside = [(axis.indices >= 0).sum(1).tolist() for axis in (rows, columns)]
            return inside[0], inside[1]
        # A window that hangs over the padding, as a rounded-up size makes it, is cut there.
        cut = [
            [
                min(position * stride - padding + kernel, size + padding)
                - (position * stride - padding)
                for position in range(positions)
            ]
            for size, kernel, stride, _, padding, positions in self.sides(call)
        ]
        return cut[0], cut[1]

    def examples(self) -> list[Example]:
        return [
            example(
                nn.AvgPool2d(3, 2, padding=1, count_include_pad=False, ceil_mode=True), (2, 3, 4, 6)
            ),
            example(nn.AvgPool2d((1, 3), divisor_override=5), (2, 2, 2, 6)),
        ]


class AvgPool1d(AvgPool2d):
    """Mean of a window (torch.nn.functional.avg_pool1d)."""

    name = "avg_pool1d"
    targets = ("aten.avg_pool1d.default",)
    dimensions = 1

    def examples(self) -> list[Example]:
        return [example(nn.AvgPool1d(3, 2), (2, 3, 9))]


@composition(
    "aten.avg_pool3d.default",
    examples=lambda: [
        example(
            nn.AvgPool3d(3, 2, padding=1, count_include_pad=False, ceil_mode=True), (2, 2, 3, 4, 3)
        ),
        example(nn.AvgPool3d((2, 1, 3), divisor_override=5), (2, 2, 2, 2, 6)),
    ],
    refusal=refuse_shape,
)
def avg_pool3d(call: Call, data: Tensor) -> Tensor:
    """Mean of a window of a volume (F.avg_pool3d), rounded for frames and depth.

    With a divisor of one's own, windows of frames are summed, and those of the depth divided.
    """

    def pool(image: Tensor, dims: Dims) -> Tensor:
        divisor = call.attributes.get("divisor_override")
        return aten.avg_pool2d.default(
            image,
            argument(call, "kernel_size", dims, 1),
            strides(call, dims),
            argument(call, "padding", dims, 0),
            call.attributes["ceil_mode"],
            call.attributes["count_include_pad"],
            1 if divisor is not None and dims[1] is not None else divisor,
        )

    return pooled(call, data, pool)
