"""Means of windows."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from mase_hw._aten import aten
from mase_hw.ops._base import Call, Example, example
from mase_hw.ops.pooling._pool import SlidingPool
from mase_hw.ops.pooling._pool3d import Pool3d


class AvgPool2d(SlidingPool):
    """Mean of a window (torch.nn.functional.avg_pool2d), an exact sum divided and rounded once."""

    name = "avg_pool2d"
    targets = ("aten.avg_pool2d.default",)
    dimensions = 2

    def counts(self, call: Call) -> tuple[list[int], list[int]]:
        """Count the elements of every window, as torch does."""
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


class AvgPool3d(Pool3d):
    """Mean of a window of a volume (F.avg_pool3d), rounded for frames and depth."""

    name = "avg_pool3d"
    targets = ("aten.avg_pool3d.default",)

    def pooled(self, call: Call, image: Tensor, dims: Sequence[int | None]) -> Tensor:
        """Return the means; with a divisor of one's own, sums that the depth's windows divide."""
        divisor = call.attributes.get("divisor_override")
        if divisor is not None and dims[1] is not None:
            divisor = 1
        return aten.avg_pool2d.default(
            image,
            self.given(call, "kernel_size", dims, 1),
            self.strides(call, dims),
            self.given(call, "padding", dims, 0),
            call.attributes["ceil_mode"],
            call.attributes["count_include_pad"],
            divisor,
        )

    def examples(self) -> list[Example]:
        return [
            example(
                nn.AvgPool3d(3, 2, padding=1, count_include_pad=False, ceil_mode=True),
                (2, 2, 3, 4, 3),
            ),
            example(nn.AvgPool3d((2, 1, 3), divisor_override=5), (2, 2, 2, 2, 6)),
        ]
