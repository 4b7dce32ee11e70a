"""Tanh shrink: `x - tanh(x)` (`torch.nn.Tanhshrink`)."""

from __future__ import annotations

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Tanhshrink(Unary):
    """Tanh shrink: `x - tanh(x)`."""

    name = "tanhshrink"
    targets = ("mase.tanhshrink.default",)

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return x - math.tanh(x)
