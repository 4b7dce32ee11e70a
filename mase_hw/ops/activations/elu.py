"""Exponential linear unit: `x` if `x > 0`, else `alpha * (exp(x) - 1)` (`torch.nn.ELU`)."""

from __future__ import annotations

from typing import Any

from mase_hw.approximation import RealMath
from mase_hw.ops._unary import Attributes, Unary


class ELU(Unary):
    """Exponential linear unit."""

    name = "elu"
    targets = ("aten.elu.default", "aten.elu_.default")

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        scale = attributes.get("scale", 1.0)
        left = attributes.get("alpha", 1.0) * math.expm1(x * attributes.get("input_scale", 1.0))
        return scale * math.where(x > 0, x, left)
