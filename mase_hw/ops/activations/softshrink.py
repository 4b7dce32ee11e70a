"""Soft shrink: `x` moved by `lambd` toward zero, zero within (`torch.nn.Softshrink`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mase_hw.approximation import RealMath
from mase_hw.ops._unary import Attributes, Unary


class Softshrink(Unary):
    """Soft shrink."""

    name = "softshrink"
    targets = ("aten.softshrink.default",)

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        lambd = attributes.get("lambd", 0.5)
        return x - math.clip(x, -lambd, lambd)

    def knots(self, attributes: Attributes) -> Sequence[float]:
        """Return where the pieces meet."""
        lambd = attributes.get("lambd", 0.5)
        return (-lambd, lambd)
