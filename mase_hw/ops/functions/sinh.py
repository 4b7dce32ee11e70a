"""Hyperbolic sine: `sinh(x)` (`torch.sinh`)."""

from __future__ import annotations

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Sinh(Unary):
    """Hyperbolic sine: `sinh(x)`."""

    name = "sinh"
    targets = ("aten.sinh.default", "aten.sinh_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return (math.expm1(x) - math.expm1(-x)) / 2
