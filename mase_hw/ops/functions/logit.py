"""Logarithm of the odds: `log(x / (1 - x))` of an operand from `eps` on (`torch.logit`)."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from mase_hw.approximation import Domain, Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Logit(Unary):
    """Logarithm of the odds."""

    name = "logit"
    targets = ("aten.logit.default", "aten.logit_.default", "aten.special_logit.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        eps = _bound(attributes)
        inside = math.clip(x, eps, 1.0 - eps) if eps else x
        return math.log(inside) - math.log1p(-inside)

    def domain(self, attributes: Attributes) -> Domain:
        """Return where it is defined."""
        return Domain(low=0.0, high=1.0, poles={} if _bound(attributes) else {0.0: -inf, 1.0: inf})

    def knots(self, attributes: Attributes) -> Sequence[float]:
        """Return where it becomes constant."""
        eps = _bound(attributes)
        return (eps, 1.0 - eps) if eps else ()


def _bound(attributes: Attributes) -> float:
    return max(0.0, float(attributes.get("eps") or 0.0))
