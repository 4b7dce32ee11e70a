"""Exponential less one: `exp(x) - 1` (`torch.expm1`)."""

from __future__ import annotations

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Expm1(Unary):
    """Exponential less one: `exp(x) - 1`."""

    name = "expm1"
    targets = ("aten.expm1.default", "aten.expm1_.default", "aten.special_expm1.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.expm1(x)
