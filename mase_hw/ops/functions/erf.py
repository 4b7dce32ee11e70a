"""Error function: `2 / sqrt(pi)` times the integral of `exp(-t**2)` to `x` (`torch.erf`)."""

from __future__ import annotations

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Erf(Unary):
    """Error function: `2 / sqrt(pi)` times the integral of `exp(-t**2)` to `x`."""

    name = "erf"
    targets = ("aten.erf.default", "aten.erf_.default", "aten.special_erf.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.erf(x)
