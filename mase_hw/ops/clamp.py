"""Clamp: `min(max(x, min), max)` with constant bounds (`torch.clamp`)."""

from __future__ import annotations

from mase_hw.ops._base import Apply, Example, example_values
from mase_hw.ops._clamp import Clamp as _Clamp
from mase_hw.ops._unary import Attributes


class Clamp(_Clamp):
    """Clamp."""

    name = "clamp"
    targets = (
        "aten.clamp.default",
        "aten.clamp_.default",
        "aten.clip.default",
        "aten.clip_.default",
        "aten.clamp_min.default",
        "aten.clamp_min_.default",
        "aten.clamp_max.default",
        "aten.clamp_max_.default",
    )
    keeps_format = True

    def bounds(self, attributes: Attributes) -> tuple[float, float]:
        """Return (low, high)."""
        low, high = attributes.get("min"), attributes.get("max")
        return float("-inf" if low is None else low), float("inf" if high is None else high)

    def examples(self) -> list[Example]:
        """Both bounds, and one."""
        return [
            (Apply(lambda x: x.clamp(-0.5, 1.25)), (example_values(3, 11),)),
            (Apply(lambda x: x.clamp(min=0.25)), (example_values(3, 11),)),
        ]
