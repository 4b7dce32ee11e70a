"""Rectifier bounded at 6: `min(max(x, 0), 6)` (`torch.nn.functional.relu6`)."""

from __future__ import annotations

from mase_hw.ops._base import Attributes
from mase_hw.ops.activations._clamp import Clamp as _Clamp


class ReLU6(_Clamp):
    """Rectifier bounded at 6."""

    name = "relu6"
    targets = ("aten.relu6.default", "aten.relu6_.default")
    keeps_format = True

    def bounds(self, attributes: Attributes) -> tuple[float, float]:
        """Return the bounds (low, high) of the result."""
        return 0.0, 6.0
