"""Normalized cardinal sine: `sin(pi x) / (pi x)`, of 0 one (`torch.sinc`)."""

from __future__ import annotations

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Sinc(Unary):
    """Normalized cardinal sine: `sin(pi x) / (pi x)`, of 0 one."""

    name = "sinc"
    targets = ("aten.sinc.default", "aten.sinc_.default", "aten.special_sinc.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        angle = math.pi * math.where(x == 0, x + 1, x)
        return math.where(x == 0, x + 1, math.sin(angle) / angle)
