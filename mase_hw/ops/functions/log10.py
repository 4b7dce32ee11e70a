"""Logarithm to base 10: `log10(x)` (`torch.log10`), of 0 and below the smallest number."""

from __future__ import annotations

from math import inf

from mase_hw.approximation import Domain, Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Log10(Unary):
    """Logarithm to base 10."""

    name = "log10"
    targets = ("aten.log10.default", "aten.log10_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.log10(x)

    def domain(self, attributes: Attributes) -> Domain:
        """Return where it is defined, and its pole."""
        return Domain(low=0.0, poles={0.0: -inf})
