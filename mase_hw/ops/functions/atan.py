"""Inverse tangent: `atan(x)` (`torch.atan`)."""

from __future__ import annotations

from typing import Any

from mase_hw.approximation import RealMath
from mase_hw.ops._unary import Attributes, Unary


class Atan(Unary):
    """Inverse tangent."""

    name = "atan"
    targets = ("aten.atan.default", "aten.atan_.default", "aten.arctan.default")

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        return math.atan(x)
