"""Rectifier: `max(x, 0)` (`torch.nn.ReLU`)."""

from __future__ import annotations

from mase_hw.ops._clamp import Clamp as _Clamp
from mase_hw.ops._unary import Attributes


class ReLU(_Clamp):
    """Rectifier."""

    name = "relu"
    targets = ("aten.relu.default", "aten.relu_.default")
    keeps_format = True

    def bounds(self, attributes: Attributes) -> tuple[float, float]:
        """Return (low, high)."""
        return 0.0, float("inf")
