"""Inverse sine: `asin(x)` (`torch.asin`), beyond -1 and 1 what these give."""

from __future__ import annotations

from typing import Any

from mase_hw.approximation import Domain, RealMath
from mase_hw.ops._unary import Attributes, Unary


class Asin(Unary):
    """Inverse sine."""

    name = "asin"
    targets = ("aten.asin.default", "aten.asin_.default", "aten.arcsin.default")

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        return math.asin(x)

    def domain(self, attributes: Attributes) -> Domain:
        """Return where it is defined."""
        return Domain(low=-1.0, high=1.0)
