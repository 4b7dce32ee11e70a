"""Inverse hyperbolic sine: `asinh(x)` (`torch.asinh`)."""

from __future__ import annotations

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Asinh(Unary):
    """Inverse hyperbolic sine: `asinh(x)`."""

    name = "asinh"
    targets = ("aten.asinh.default", "aten.asinh_.default", "aten.arcsinh.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        size = abs(x)
        found = math.log1p(size + size * size / (1 + math.sqrt(size * size + 1)))
        return math.where(x < 0, -found, found)
