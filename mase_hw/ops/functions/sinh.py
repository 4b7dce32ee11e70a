"""Hyperbolic sine: `sinh(x)` (`torch.sinh`)."""

from __future__ import annotations

from typing import Any

from mase_hw.approximation import RealMath
from mase_hw.ops._unary import Attributes, Unary


class Sinh(Unary):
    """Hyperbolic sine."""

    name = "sinh"
    targets = ("aten.sinh.default", "aten.sinh_.default")

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        return (math.expm1(x) - math.expm1(-x)) / 2
