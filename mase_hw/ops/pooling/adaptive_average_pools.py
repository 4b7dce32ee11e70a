"""Means of as many windows as results are asked for."""

from __future__ import annotations

from torch import Tensor, nn

from mase_hw._aten import aten
from mase_hw.ops._base import Call, Example, example
from mase_hw.ops._composite import composition
from mase_hw.ops.pooling._adaptive import AdaptivePool
from mase_hw.ops.pooling._pool3d import Dims, pooled, positions, refuse_shape


class AdaptiveAvgPool2d(AdaptivePool):
    """Mean of windows that share an image out evenly (torch.nn.functional.adaptive_avg_pool2d)."""

    name = "adaptive_avg_pool2d"
    targets = ("aten.adaptive_avg_pool2d.default",)
    dimensions = 2

    def counts(self, call: Call) -> tuple[list[int], list[int]]:
        rows, columns = self.axes(call)
        return (rows.indices >= 0).sum(1).tolist(), (columns.indices >= 0).sum(1).tolist()

    def examples(self) -> list[Example]:
        return [
            example(nn.AdaptiveAvgPool2d(1), (2, 5, 3, 4)),
            example(nn.AdaptiveAvgPool2d((3, 2)), (2, 2, 5, 3)),
        ]


class AdaptiveAvgPool1d(AdaptiveAvgPool2d):
    """Mean of windows that share a signal out evenly (torch.nn.functional.adaptive_avg_pool1d)."""

    name = "adaptive_avg_pool1d"
    targets = ("aten.adaptive_avg_pool1d.default",)
    dimensions = 1

    def examples(self) -> list[Example]:
        return [example(nn.AdaptiveAvgPool1d(3), (2, 3, 7))]


@composition(
    "aten.adaptive_avg_pool3d.default",
    examples=lambda: [
        example(nn.AdaptiveAvgPool3d(1), (2, 3, 2, 3, 2)),
        example(nn.AdaptiveAvgPool3d((2, 3, 2)), (2, 2, 3, 5, 2)),
    ],
    refusal=refuse_shape,
)
def adaptive_avg_pool3d(call: Call, data: Tensor) -> Tensor:
    """Mean of windows that share a volume out evenly (torch.nn.functional.adaptive_avg_pool3d)."""

    def pool(image: Tensor, dims: Dims) -> Tensor:
        return aten.adaptive_avg_pool2d.default(image, positions(call, dims))

    return pooled(call, data, pool)
