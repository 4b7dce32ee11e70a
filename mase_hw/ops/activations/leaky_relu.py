"""Leaky rectifier: `x` if `x > 0`, else `negative_slope * x` (`torch.nn.LeakyReLU`)."""

from __future__ import annotations

from typing import Any

from mase_hw.approximation import RealMath
from mase_hw.ops._unary import Attributes, Unary


class LeakyReLU(Unary):
    """Leaky rectifier."""

    name = "leaky_relu"
    targets = ("aten.leaky_relu.default", "aten.leaky_relu_.default")

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        slope = attributes.get("negative_slope", 0.01)
        return math.where(x > 0, x, x * slope)
