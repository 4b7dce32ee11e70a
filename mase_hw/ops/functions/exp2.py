"""Power of two: `2 ** x` (`torch.exp2`)."""

from __future__ import annotations

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Exp2(Unary):
    """Power of two: `2 ** x`."""

    name = "exp2"
    targets = ("aten.exp2.default", "aten.exp2_.default", "aten.special_exp2.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.power(2.0, x)
