"""Hard swish: `x * min(max(x + 3, 0), 6) / 6` (`torch.nn.Hardswish`; Howard et al. 2019)."""

from __future__ import annotations

from collections.abc import Sequence

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Hardswish(Unary):
    """Hard swish: `x * min(max(x + 3, 0), 6) / 6`."""

    name = "hardswish"
    targets = ("aten.hardswish.default", "aten.hardswish_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return x * math.clip(x + 3, 0.0, 6.0) / 6

    def knots(self, attributes: Attributes) -> Sequence[float]:
        """Return where the pieces meet."""
        return (-3.0, 3.0)
