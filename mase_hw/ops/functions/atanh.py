"""Inverse hyperbolic tangent: `atanh(x)` (`torch.atanh`), beyond -1 and 1 what these give."""

from __future__ import annotations

from math import inf

from mase_hw.approximation import Domain, Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Atanh(Unary):
    """Inverse hyperbolic tangent: `atanh(x)`, beyond -1 and 1 what these give."""

    name = "atanh"
    targets = ("aten.atanh.default", "aten.atanh_.default", "aten.arctanh.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return (math.log1p(x) - math.log1p(-x)) / 2

    def domain(self, attributes: Attributes) -> Domain:
        """Return where it is defined."""
        return Domain(low=-1.0, high=1.0, poles={-1.0: -inf, 1.0: inf})
