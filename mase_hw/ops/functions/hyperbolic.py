"""Hyperbolic functions and their inverses."""

from __future__ import annotations

from math import inf

from mase_hw.approximation import Domain, Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Sinh(Unary):
    """Hyperbolic sine: `sinh(x)` (`torch.sinh`)."""

    name = "sinh"
    targets = ("aten.sinh.default", "aten.sinh_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return (math.expm1(x) - math.expm1(-x)) / 2


class Cosh(Unary):
    """Hyperbolic cosine: `cosh(x)` (`torch.cosh`)."""

    name = "cosh"
    targets = ("aten.cosh.default", "aten.cosh_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return (math.exp(x) + math.exp(-x)) / 2


class Asinh(Unary):
    """Inverse hyperbolic sine: `asinh(x)` (`torch.asinh`)."""

    name = "asinh"
    targets = ("aten.asinh.default", "aten.asinh_.default", "aten.arcsinh.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        size = abs(x)
        found = math.log1p(size + size * size / (1 + math.sqrt(size * size + 1)))
        return math.where(x < 0, -found, found)


class Acosh(Unary):
    """Inverse hyperbolic cosine: `acosh(x)` (`torch.acosh`), below 1 what 1 gives."""

    name = "acosh"
    targets = ("aten.acosh.default", "aten.acosh_.default", "aten.arccosh.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.log(x + math.sqrt(x * x - 1))

    def domain(self, attributes: Attributes) -> Domain:
        return Domain(low=1.0)


class Atanh(Unary):
    """Inverse hyperbolic tangent: `atanh(x)` (`torch.atanh`), beyond -1 and 1 what these give."""

    name = "atanh"
    targets = ("aten.atanh.default", "aten.atanh_.default", "aten.arctanh.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return (math.log1p(x) - math.log1p(-x)) / 2

    def domain(self, attributes: Attributes) -> Domain:
        return Domain(low=-1.0, high=1.0, poles={-1.0: -inf, 1.0: inf})
