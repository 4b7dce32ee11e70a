"""Logarithm to base 2: `log2(x)` (`torch.log2`), of 0 and below the smallest number."""

from __future__ import annotations

from math import inf

from mase_hw.approximation import Domain, Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Log2(Unary):
    """Logarithm to base 2."""

    name = "log2"
    targets = ("aten.log2.default", "aten.log2_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.log2(x)

    def domain(self, attributes: Attributes) -> Domain:
        """Return where it is defined, and its pole."""
        return Domain(low=0.0, poles={0.0: -inf})
