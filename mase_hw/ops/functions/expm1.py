"""Exponential less one: `exp(x) - 1` (`torch.expm1`)."""

from __future__ import annotations

from typing import Any

from mase_hw.approximation import RealMath
from mase_hw.ops._unary import Attributes, Unary


class Expm1(Unary):
    """Exponential less one."""

    name = "expm1"
    targets = ("aten.expm1.default", "aten.expm1_.default", "aten.special_expm1.default")

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        return math.expm1(x)
