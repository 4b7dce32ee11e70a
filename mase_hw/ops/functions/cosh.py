"""Hyperbolic cosine: `cosh(x)` (`torch.cosh`)."""

from __future__ import annotations

from typing import Any

from mase_hw.approximation import RealMath
from mase_hw.ops._unary import Attributes, Unary


class Cosh(Unary):
    """Hyperbolic cosine."""

    name = "cosh"
    targets = ("aten.cosh.default", "aten.cosh_.default")

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        return (math.exp(x) + math.exp(-x)) / 2
