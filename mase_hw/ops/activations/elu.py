"""Exponential linear unit: `x` if `x > 0`, else `alpha * (exp(x) - 1)` (`torch.nn.ELU`)."""

from __future__ import annotations

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class ELU(Unary):
    """Exponential linear unit: `x` if `x > 0`, else `alpha * (exp(x) - 1)`."""

    name = "elu"
    targets = ("aten.elu.default", "aten.elu_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        scale: float = attributes.get("scale", 1.0)
        left = attributes.get("alpha", 1.0) * math.expm1(x * attributes.get("input_scale", 1.0))
        return math.where(x > 0, x, left) * scale
