"""Mean of windows that share a volume out evenly (torch.nn.functional.adaptive_avg_pool3d)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from mase_hw._aten import aten
from mase_hw.ops._base import Call, Example, example_values
from mase_hw.ops.pooling._pool3d import Pool3d


class AdaptiveAvgPool3d(Pool3d):
    """The mean over the depth of the means of frames, rounded after each."""

    name = "adaptive_avg_pool3d"
    targets = ("aten.adaptive_avg_pool3d.default",)

    def pooled(self, call: Call, image: Tensor, dims: Sequence[int | None]) -> Tensor:
        """Share the image out."""
        result = call.result.shape
        frame = result[3] * result[4]
        size = [result[2 + dim] if dim is not None else frame for dim in dims]
        return aten.adaptive_avg_pool2d.default(image, size)

    def examples(self) -> list[Example]:
        """One window, and windows of different sizes."""
        return [
            (nn.AdaptiveAvgPool3d(1), (example_values(2, 3, 2, 3, 2),)),
            (nn.AdaptiveAvgPool3d((2, 3, 2)), (example_values(2, 2, 3, 5, 2),)),
        ]
