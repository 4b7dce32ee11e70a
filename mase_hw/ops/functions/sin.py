"""Sine: `sin(x)` (`torch.sin`)."""

from __future__ import annotations

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Sin(Unary):
    """Sine: `sin(x)`, periodic."""

    name = "sin"
    targets = ("aten.sin.default", "aten.sin_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.sin(x)
