"""Logarithm of `1 + x` (`torch.log1p`), of -1 and below the smallest number."""

from __future__ import annotations

from math import inf

from mase_hw.approximation import Domain, Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Log1p(Unary):
    """Logarithm of `1 + x`."""

    name = "log1p"
    targets = ("aten.log1p.default", "aten.log1p_.default", "aten.special_log1p.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.log1p(x)

    def domain(self, attributes: Attributes) -> Domain:
        """Return where it is defined, and its pole."""
        return Domain(low=-1.0, poles={-1.0: -inf})
