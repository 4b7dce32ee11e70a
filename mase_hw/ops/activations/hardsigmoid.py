"""Hard sigmoid: `min(max(x + 3, 0), 6) / 6` (`torch.nn.Hardsigmoid`)."""

from __future__ import annotations

from collections.abc import Sequence

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Hardsigmoid(Unary):
    """Hard sigmoid: `min(max(x + 3, 0), 6) / 6`."""

    name = "hardsigmoid"
    targets = ("aten.hardsigmoid.default", "aten.hardsigmoid_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.clip(x + 3, 0.0, 6.0) / 6

    def knots(self, attributes: Attributes) -> Sequence[float]:
        """Return where the pieces meet."""
        return (-3.0, 3.0)
