"""Inverse hyperbolic cosine: `acosh(x)` (`torch.acosh`), below 1 what 1 gives."""

from __future__ import annotations

from mase_hw.approximation import Domain, Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Acosh(Unary):
    """Inverse hyperbolic cosine: `acosh(x)`, below 1 what 1 gives."""

    name = "acosh"
    targets = ("aten.acosh.default", "aten.acosh_.default", "aten.arccosh.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.log(x + math.sqrt(x * x - 1))

    def domain(self, attributes: Attributes) -> Domain:
        """Return where it is defined."""
        return Domain(low=1.0)
