"""Error function: `2 / sqrt(pi)` times the integral of `exp(-t**2)` to `x` (`torch.erf`)."""

from __future__ import annotations

from typing import Any

from mase_hw.approximation import RealMath
from mase_hw.ops._unary import Attributes, Unary


class Erf(Unary):
    """Error function."""

    name = "erf"
    targets = ("aten.erf.default", "aten.erf_.default", "aten.special_erf.default")

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        return math.erf(x)
