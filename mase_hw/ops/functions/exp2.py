"""Power of two: `2 ** x` (`torch.exp2`)."""

from __future__ import annotations

from typing import Any

from mase_hw.approximation import RealMath
from mase_hw.ops._unary import Attributes, Unary


class Exp2(Unary):
    """Power of two."""

    name = "exp2"
    targets = ("aten.exp2.default", "aten.exp2_.default", "aten.special_exp2.default")

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        return math.power(2.0, x)
