"""Mean of a window of a volume (torch.nn.functional.avg_pool3d), rounded for frames and depth."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from mase_hw._aten import aten
from mase_hw.ops._base import Call, Example, example_values
from mase_hw.ops.pooling._pool3d import Pool3d


class AvgPool3d(Pool3d):
    """The mean over the depth of the means of frames."""

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
        """Padding that is not counted; a divisor of one's own."""
        return [
            (
                nn.AvgPool3d(3, 2, padding=1, count_include_pad=False, ceil_mode=True),
                (example_values(2, 2, 3, 4, 3),),
            ),
            (nn.AvgPool3d((2, 1, 3), divisor_override=5), (example_values(2, 2, 2, 2, 6),)),
        ]
