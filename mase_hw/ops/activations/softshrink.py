"""Soft shrink: `x` moved by `lambd` toward zero, zero within (`torch.nn.Softshrink`)."""

from __future__ import annotations

from collections.abc import Sequence

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Softshrink(Unary):
    """Soft shrink: `x` moved by `lambd` toward zero, zero within."""

    name = "softshrink"
    targets = ("aten.softshrink.default",)

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        lambd = attributes.get("lambd", 0.5)
        return x - math.clip(x, -lambd, lambd)

    def knots(self, attributes: Attributes) -> Sequence[float]:
        """Return where the pieces meet."""
        lambd = attributes.get("lambd", 0.5)
        return (-lambd, lambd)
