"""Inverse tangent: `atan(x)` (`torch.atan`)."""

from __future__ import annotations

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Atan(Unary):
    """Inverse tangent: `atan(x)`."""

    name = "atan"
    targets = ("aten.atan.default", "aten.atan_.default", "aten.arctan.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.atan(x)
