"""Complementary error function: `1 - erf(x)` (`torch.erfc`)."""

from __future__ import annotations

from typing import Any

from mase_hw.approximation import RealMath
from mase_hw.ops._unary import Attributes, Unary


class Erfc(Unary):
    """Complementary error function."""

    name = "erfc"
    targets = ("aten.erfc.default", "aten.erfc_.default", "aten.special_erfc.default")

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        return math.erfc(x)
