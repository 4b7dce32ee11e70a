"""Exponential: `exp(x)` (`torch.exp`)."""

from __future__ import annotations

from typing import Any

from mase_hw.approximation import RealMath
from mase_hw.ops._unary import Attributes, Unary


class Exp(Unary):
    """Exponential."""

    name = "exp"
    targets = ("aten.exp.default", "aten.exp_.default")

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        return math.exp(x)
