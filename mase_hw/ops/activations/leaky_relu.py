"""Leaky rectifier: `x` if `x > 0`, else `negative_slope * x` (`torch.nn.LeakyReLU`)."""

from __future__ import annotations

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class LeakyReLU(Unary):
    """Leaky rectifier: `x` if `x > 0`, else `negative_slope * x`."""

    name = "leaky_relu"
    targets = ("aten.leaky_relu.default", "aten.leaky_relu_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        slope = attributes.get("negative_slope", 0.01)
        return math.where(x > 0, x, x * slope)
