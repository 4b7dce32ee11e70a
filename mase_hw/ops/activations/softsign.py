"""Softsign: `x / (1 + |x|)` (`torch.nn.Softsign`)."""

from __future__ import annotations

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Softsign(Unary):
    """Softsign: `x / (1 + |x|)`."""

    name = "softsign"
    targets = ("mase.softsign.default",)

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return x / (1 + abs(x))
