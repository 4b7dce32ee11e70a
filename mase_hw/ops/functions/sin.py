"""Sine: `sin(x)` (`torch.sin`)."""

from __future__ import annotations

from typing import Any

from mase_hw.approximation import RealMath
from mase_hw.ops._unary import Attributes, Unary


class Sin(Unary):
    """Sine."""

    name = "sin"
    targets = ("aten.sin.default", "aten.sin_.default")

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        return math.sin(x)
