"""Continuous ELU: `x` if `x > 0`, else `alpha * (exp(x / alpha) - 1)` (`torch.nn.CELU`)."""

from __future__ import annotations

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class CELU(Unary):
    """Continuous ELU: `x` if `x > 0`, else `alpha * (exp(x / alpha) - 1)`."""

    name = "celu"
    targets = ("aten.celu.default", "aten.celu_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        alpha = attributes.get("alpha", 1.0)
        return math.where(x > 0, x, alpha * math.expm1(x / alpha))
