"""Cosine: `cos(x)` (`torch.cos`)."""

from __future__ import annotations

from typing import Any

from mase_hw.approximation import RealMath
from mase_hw.ops._unary import Attributes, Unary


class Cos(Unary):
    """Cosine."""

    name = "cos"
    targets = ("aten.cos.default", "aten.cos_.default")

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        return math.cos(x)
