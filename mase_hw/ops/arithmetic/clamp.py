"""Clamp: `min(max(x, min), max)` with constant bounds (`torch.clamp`)."""

from __future__ import annotations

from types import MappingProxyType

from mase_hw.ops._base import Attributes
from mase_hw.ops.activations._clamp import Clamp as _Clamp


class Clamp(_Clamp):
    """Clamp: `min(max(x, min), max)` with constant bounds."""

    name = "clamp"
    targets = tuple(
        f"aten.{name}{place}.default"
        for name in ("clamp", "clip", "clamp_min", "clamp_max")
        for place in ("", "_")
    )
    keeps_format = True
    required_attributes = MappingProxyType({"min": -0.5, "max": 1.25})

    def bounds(self, attributes: Attributes) -> tuple[float, float]:
        """Return the bounds (low, high) of the result."""
        low, high = attributes.get("min"), attributes.get("max")
        return float("-inf" if low is None else low), float("inf" if high is None else high)
