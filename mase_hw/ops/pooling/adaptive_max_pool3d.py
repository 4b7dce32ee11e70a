"""Largest element of windows that share a volume out (torch.nn.functional.adaptive_max_pool3d)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from mase_hw.ops._base import Call, Example, example_values, torch_target
from mase_hw.ops.pooling._pool3d import Pool3d
from mase_hw.ops.pooling.adaptive_max_pool2d import with_places


class AdaptiveMaxPool3d(Pool3d):
    """The largest of the largest of every frame."""

    name = "adaptive_max_pool3d"
    targets = ("aten.adaptive_max_pool3d.default",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Return the maxima, and where they are."""
        found = super().expression(call, operands)
        if found is None or len(call.results) == 1:
            return found
        data = operands["data_in_0"]
        return with_places(lambda *_: found[0], call, data)

    def pooled(self, call: Call, image: Tensor, dims: Sequence[int | None]) -> Tensor:
        """Share the image out."""
        result = call.result.shape
        frame = result[3] * result[4]
        size = [result[2 + dim] if dim is not None else frame for dim in dims]
        return torch_target("mase.adaptive_max_pool2d.default")(image, size)

    def examples(self) -> list[Example]:
        """One window, and windows of different sizes."""
        return [
            (nn.AdaptiveMaxPool3d(1), (example_values(2, 3, 2, 3, 2),)),
            (nn.AdaptiveMaxPool3d((2, 3, 2)), (example_values(2, 2, 3, 5, 2),)),
        ]
