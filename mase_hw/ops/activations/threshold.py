"""Threshold: `x` if `x > threshold`, else `value` (`torch.nn.Threshold`)."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Threshold(Unary):
    """Threshold: `x` if `x > threshold`, else `value`."""

    name = "threshold"
    targets = ("aten.threshold.default", "aten.threshold_.default")
    required_attributes = MappingProxyType({"threshold": 0.1, "value": 0.7})

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.where(x > attributes["threshold"], x, attributes["value"] + 0 * x)

    def knots(self, attributes: Attributes) -> Sequence[float]:
        """Return where the pieces meet."""
        return (attributes["threshold"],)
