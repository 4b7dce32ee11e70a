"""Natural logarithm: `log(x)` (`torch.log`), of 0 and below the smallest number."""

from __future__ import annotations

from math import inf

from mase_hw.approximation import Domain, Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Log(Unary):
    """Natural logarithm: `log(x)`, of 0 and below the smallest number."""

    name = "log"
    targets = ("aten.log.default", "aten.log_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.log(x)

    def domain(self, attributes: Attributes) -> Domain:
        """Return where it is defined, and its pole."""
        return Domain(low=0.0, poles={0.0: -inf})
