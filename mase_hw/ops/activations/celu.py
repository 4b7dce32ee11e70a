"""Continuous ELU: `x` if `x > 0`, else `alpha * (exp(x / alpha) - 1)` (`torch.nn.CELU`)."""

from __future__ import annotations

from typing import Any

from mase_hw.approximation import RealMath
from mase_hw.ops._unary import Attributes, Unary


class CELU(Unary):
    """Continuous ELU."""

    name = "celu"
    targets = ("aten.celu.default", "aten.celu_.default")

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        alpha = attributes.get("alpha", 1.0)
        return math.where(x > 0, x, alpha * math.expm1(x / alpha))
