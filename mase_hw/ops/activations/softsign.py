"""Softsign: `x / (1 + |x|)` (`torch.nn.Softsign`)."""

from __future__ import annotations

from typing import Any

from mase_hw.approximation import RealMath
from mase_hw.ops._unary import Attributes, Unary


class Softsign(Unary):
    """Softsign."""

    name = "softsign"
    targets = ("mase.softsign.default",)

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        return x / (1 + abs(x))
