"""Softplus: `log(1 + exp(beta * x)) / beta`, `x` beyond `threshold` (`torch.nn.Softplus`)."""

from __future__ import annotations

from collections.abc import Sequence

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Softplus(Unary):
    """Softplus: `log(1 + exp(beta * x)) / beta`, `x` beyond `threshold`."""

    name = "softplus"
    targets = ("aten.softplus.default",)

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        beta = attributes.get("beta", 1.0)
        linear = x * beta > attributes.get("threshold", 20.0)
        return math.where(linear, x, math.softplus(x * beta) / beta)

    def knots(self, attributes: Attributes) -> Sequence[float]:
        """Return where the pieces meet."""
        return (attributes.get("threshold", 20.0) / attributes.get("beta", 1.0),)
