"""Rectifier: `max(x, 0)` (`torch.nn.ReLU`)."""

from __future__ import annotations

from mase_hw.ops._base import Attributes
from mase_hw.ops.activations._clamp import Clamp as _Clamp


class ReLU(_Clamp):
    """Rectifier: `max(x, 0)`."""

    name = "relu"
    targets = ("aten.relu.default", "aten.relu_.default")
    keeps_format = True

    def bounds(self, attributes: Attributes) -> tuple[float, float]:
        """Return the bounds (low, high) of the result."""
        return 0.0, float("inf")
