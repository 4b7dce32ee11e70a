"""Clamp: `min(max(x, min), max)` with constant bounds (`torch.clamp`)."""

from __future__ import annotations

from typing import ClassVar

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
    required_attributes: ClassVar[Attributes] = {"min": -0.5, "max": 1.25}

    def bounds(self, attributes: Attributes) -> tuple[float, float]:
        """Return (low, high)."""
        low, high = attributes.get("min"), attributes.get("max")
        return float("-inf" if low is None else low), float("inf" if high is None else high)
