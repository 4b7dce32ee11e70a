"""Largest element of a window of a volume (torch.nn.functional.max_pool3d)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from mase_hw._aten import aten
from mase_hw.ops._base import Call, Example, example_values
from mase_hw.ops.pooling._pool3d import Pool3d


class MaxPool3d(Pool3d):
    """The largest of the largest of every frame."""

    name = "max_pool3d"
    targets = ("aten.max_pool3d.default",)

    def pooled(self, call: Call, image: Tensor, dims: Sequence[int | None]) -> Tensor:
        """Return the largest pixels."""
        return aten.max_pool2d.default(
            image,
            self.given(call, "kernel_size", dims, 1),
            self.strides(call, dims),
            self.given(call, "padding", dims, 0),
            self.given(call, "dilation", dims, 1),
            call.attributes["ceil_mode"],
        )

    def examples(self) -> list[Example]:
        """Windows apart; windows that overlap, with padding and a rounded-up size."""
        return [
            (nn.MaxPool3d(2), (example_values(2, 2, 2, 4, 2),)),
            (
                nn.MaxPool3d((2, 3, 2), (1, 2, 1), padding=(1, 1, 0), ceil_mode=True),
                (example_values(2, 1, 3, 4, 3),),
            ),
        ]
