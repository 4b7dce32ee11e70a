"""Logarithms."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from mase_hw.approximation import Domain, Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Log(Unary):
    """Natural logarithm: `log(x)` (`torch.log`), of 0 and below the smallest number."""

    name = "log"
    targets = ("aten.log.default", "aten.log_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.log(x)

    def domain(self, attributes: Attributes) -> Domain:
        return Domain(low=0.0, poles={0.0: -inf})


class Log2(Unary):
    """Logarithm to base 2: `log2(x)` (`torch.log2`), of 0 and below the smallest number."""

    name = "log2"
    targets = ("aten.log2.default", "aten.log2_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.log2(x)

    def domain(self, attributes: Attributes) -> Domain:
        return Domain(low=0.0, poles={0.0: -inf})


class Log10(Unary):
    """Logarithm to base 10: `log10(x)` (`torch.log10`), of 0 and below the smallest number."""

    name = "log10"
    targets = ("aten.log10.default", "aten.log10_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.log10(x)

    def domain(self, attributes: Attributes) -> Domain:
        return Domain(low=0.0, poles={0.0: -inf})


class Log1p(Unary):
    """Logarithm of `1 + x` (`torch.log1p`), of -1 and below the smallest number."""

    name = "log1p"
    targets = ("aten.log1p.default", "aten.log1p_.default", "aten.special_log1p.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.log1p(x)

    def domain(self, attributes: Attributes) -> Domain:
        return Domain(low=-1.0, poles={-1.0: -inf})


class Logit(Unary):
    """Logarithm of the odds: `log(x / (1 - x))` of an operand from `eps` on (`torch.logit`)."""

    name = "logit"
    targets = ("aten.logit.default", "aten.logit_.default", "aten.special_logit.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        eps = _bound(attributes)
        inside = math.clip(x, eps, 1.0 - eps) if eps else x
        return math.log(inside) - math.log1p(-inside)

    def domain(self, attributes: Attributes) -> Domain:
        return Domain(low=0.0, high=1.0, poles={} if _bound(attributes) else {0.0: -inf, 1.0: inf})

    def knots(self, attributes: Attributes) -> Sequence[float]:
        eps = _bound(attributes)
        return (eps, 1.0 - eps) if eps else ()


def _bound(attributes: Attributes) -> float:
    return max(0.0, float(attributes.get("eps") or 0.0))
