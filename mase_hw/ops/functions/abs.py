"""Absolute value: `|x|` (`torch.abs`)."""

from __future__ import annotations

from typing import Any

from mase_hw.approximation import RealMath
from mase_hw.ops._unary import Attributes, Unary


class Abs(Unary):
    """Absolute value."""

    name = "abs"
    targets = ("aten.abs.default", "aten.abs_.default")

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        return abs(x)
