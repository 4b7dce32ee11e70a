"""Exponential: `exp(x)` (`torch.exp`)."""

from __future__ import annotations

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Exp(Unary):
    """Exponential: `exp(x)`, base e."""

    name = "exp"
    targets = ("aten.exp.default", "aten.exp_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.exp(x)
