"""The error function and its complement."""

from __future__ import annotations

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Erf(Unary):
    """Error function: `2 / sqrt(pi)` times the integral of `exp(-t**2)` to `x` (`torch.erf`)."""

    name = "erf"
    targets = ("aten.erf.default", "aten.erf_.default", "aten.special_erf.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.erf(x)


class Erfc(Unary):
    """Complementary error function: `1 - erf(x)` (`torch.erfc`)."""

    name = "erfc"
    targets = ("aten.erfc.default", "aten.erfc_.default", "aten.special_erfc.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.erfc(x)
