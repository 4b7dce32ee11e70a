"""Bounded identity: `min(max(x, min_val), max_val)` (`torch.nn.Hardtanh`, `torch.nn.ReLU6`)."""

from __future__ import annotations

from mase_hw.ops._base import Attributes
from mase_hw.ops.activations._clamp import Clamp as _Clamp


class Hardtanh(_Clamp):
    """Bounded identity: `min(max(x, min_val), max_val)`."""

    name = "hardtanh"
    targets = ("aten.hardtanh.default", "aten.hardtanh_.default")
    keeps_format = True

    def bounds(self, attributes: Attributes) -> tuple[float, float]:
        """Return the bounds (low, high) of the result."""
        return float(attributes.get("min_val", -1.0)), float(attributes.get("max_val", 1.0))
