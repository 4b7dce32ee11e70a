"""Hyperbolic tangent: `tanh(x)` (`torch.nn.Tanh`)."""

from __future__ import annotations

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Tanh(Unary):
    """Hyperbolic tangent: `tanh(x)`."""

    name = "tanh"
    targets = ("aten.tanh.default", "aten.tanh_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.tanh(x)
