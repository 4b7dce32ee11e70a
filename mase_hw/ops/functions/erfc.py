"""Complementary error function: `1 - erf(x)` (`torch.erfc`)."""

from __future__ import annotations

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Erfc(Unary):
    """Complementary error function: `1 - erf(x)`."""

    name = "erfc"
    targets = ("aten.erfc.default", "aten.erfc_.default", "aten.special_erfc.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.erfc(x)
