"""Cosine: `cos(x)` (`torch.cos`)."""

from __future__ import annotations

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Cos(Unary):
    """Cosine: `cos(x)`, periodic."""

    name = "cos"
    targets = ("aten.cos.default", "aten.cos_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.cos(x)
