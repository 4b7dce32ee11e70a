"""Largest pixel of windows that share an image out (torch.nn.functional.adaptive_max_pool2d)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from torch import nn
from torch.nn.functional import adaptive_max_pool2d

from mase_hw.ops._adaptive import AdaptivePool
from mase_hw.ops._base import Call, Example, example_values, torch_target
from mase_hw.ops._library import define_sized

define_sized("adaptive_max_pool2d", lambda values, size: adaptive_max_pool2d(values, size))


class AdaptiveMaxPool2d(AdaptivePool):
    """Torch's own operator also returns indices, which have no hardware."""

    name: ClassVar[str] = "adaptive_max_pool2d"
    selects: ClassVar[bool] = True
    targets: ClassVar[tuple[str, ...]] = (
        "mase.adaptive_max_pool2d.default",
        "aten.adaptive_max_pool2d.default",
    )
    dimensions: ClassVar[int] = 2
    maximum: ClassVar[bool] = True
    keeps_format: ClassVar[bool] = True

    def expression(self, call: Call, operands: Mapping[str, Any]) -> Sequence[Any] | None:
        """Leave the indices out."""
        if len(call.results) == 1:
            return None
        return [torch_target(self.targets[0])(operands["data_in_0"], list(call.result.shape[2:]))]

    def problems(self, call: Call) -> list[str]:
        """Also refuse indices."""
        if len(call.results) > 1:
            return ["the indices of the maxima are used; only the maxima have hardware"]
        return super().problems(call)

    def examples(self) -> list[Example]:
        """One window, and windows of different sizes."""
        return [
            (nn.AdaptiveMaxPool2d(1), (example_values(2, 5, 3, 4),)),
            (nn.AdaptiveMaxPool2d((3, 2)), (example_values(2, 2, 5, 3),)),
        ]
