"""Absolute value: `|x|` (`torch.abs`)."""

from __future__ import annotations

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Abs(Unary):
    """Absolute value: `|x|`."""

    name = "abs"
    targets = ("aten.abs.default", "aten.abs_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return abs(x)
