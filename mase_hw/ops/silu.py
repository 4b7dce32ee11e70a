"""Sigmoid linear unit: `x * sigmoid(x)` (`torch.nn.SiLU`; arXiv:1702.03118)."""

from __future__ import annotations

from typing import Any

from mase_hw.ops._real_math import RealMath
from mase_hw.ops._unary import Attributes, Unary


class SiLU(Unary):
    """Sigmoid linear unit."""

    name = "silu"
    targets = ("aten.silu.default", "aten.silu_.default")

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        """Return the function."""
        return x * math.sigmoid(x)
