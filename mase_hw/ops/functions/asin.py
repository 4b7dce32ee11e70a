"""Inverse sine: `asin(x)` (`torch.asin`), beyond -1 and 1 what these give."""

from __future__ import annotations

from mase_hw.approximation import Domain, Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Asin(Unary):
    """Inverse sine: `asin(x)`, beyond -1 and 1 what these give."""

    name = "asin"
    targets = ("aten.asin.default", "aten.asin_.default", "aten.arcsin.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.asin(x)

    def domain(self, attributes: Attributes) -> Domain:
        """Return where it is defined."""
        return Domain(low=-1.0, high=1.0)
