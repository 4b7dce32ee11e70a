"""Hyperbolic tangent: `tanh(x)` (`torch.nn.Tanh`)."""

from __future__ import annotations

from typing import Any

from mase_hw.approximation import RealMath
from mase_hw.ops._unary import Attributes, Unary


class Tanh(Unary):
    """Hyperbolic tangent."""

    name = "tanh"
    targets = ("aten.tanh.default", "aten.tanh_.default")

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        return math.tanh(x)
