"""Mish: `x * tanh(softplus(x))` (`torch.nn.Mish`; arXiv:1908.08681)."""

from __future__ import annotations

from typing import Any

from mase_hw.ops._real_math import RealMath
from mase_hw.ops._unary import Attributes, Unary


class Mish(Unary):
    """Mish."""

    name = "mish"
    targets = ("aten.mish.default", "aten.mish_.default")

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        """Return the function."""
        return x * math.tanh(math.softplus(x))
