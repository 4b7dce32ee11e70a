"""Activations that move numbers towards zero."""

from __future__ import annotations

from collections.abc import Sequence

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._rewriting import Borrowed
from mase_hw.ops._unary import Unary


class Softshrink(Unary):
    """Soft shrink: `x` moved by `lambd` toward zero, zero within (`torch.nn.Softshrink`)."""

    name = "softshrink"
    targets = ("aten.softshrink.default",)

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        lambd = attributes.get("lambd", 0.5)
        return x - math.clip(x, -lambd, lambd)

    def knots(self, attributes: Attributes) -> Sequence[float]:
        lambd = attributes.get("lambd", 0.5)
        return (-lambd, lambd)


class Hardshrink(Unary, Borrowed):
    """Hard shrink: zero if `|x| <= lambd`, else `x` (`torch.nn.Hardshrink`)."""

    name = "hardshrink"
    targets = ("aten.hardshrink.default",)
    keeps_format = jumps = True
    also_for = "shrink"

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.where(abs(x) > attributes.get("lambd", 0.5), x, 0 * x)

    def knots(self, attributes: Attributes) -> Sequence[float]:
        lambd = attributes.get("lambd", 0.5)
        return (-lambd, lambd)


class Tanhshrink(Unary):
    """Tanh shrink: `x - tanh(x)` (`torch.nn.Tanhshrink`)."""

    name = "tanhshrink"
    targets = ("mase.tanhshrink.default",)

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return x - math.tanh(x)
