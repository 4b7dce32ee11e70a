"""Tanh shrink: `x - tanh(x)` (`torch.nn.Tanhshrink`)."""

from __future__ import annotations

from typing import Any

from mase_hw.approximation import RealMath
from mase_hw.ops._unary import Attributes, Unary


class Tanhshrink(Unary):
    """Tanh shrink."""

    name = "tanhshrink"
    targets = ("mase.tanhshrink.default",)

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        return x - math.tanh(x)
