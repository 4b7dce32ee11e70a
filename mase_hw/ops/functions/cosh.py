"""Hyperbolic cosine: `cosh(x)` (`torch.cosh`)."""

from __future__ import annotations

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Cosh(Unary):
    """Hyperbolic cosine: `cosh(x)`."""

    name = "cosh"
    targets = ("aten.cosh.default", "aten.cosh_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return (math.exp(x) + math.exp(-x)) / 2
