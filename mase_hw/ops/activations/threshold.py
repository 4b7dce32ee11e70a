"""Threshold: `x` if `x > threshold`, else `value` (`torch.nn.Threshold`)."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from mase_hw.approximation import RealMath
from mase_hw.ops._unary import Attributes, Unary


class Threshold(Unary):
    """Threshold."""

    name = "threshold"
    targets = ("aten.threshold.default", "aten.threshold_.default")
    required_attributes = MappingProxyType({"threshold": 0.1, "value": 0.7})

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        return math.where(x > attributes["threshold"], x, attributes["value"] + 0 * x)

    def knots(self, attributes: Attributes) -> Sequence[float]:
        """Return where the pieces meet."""
        return (attributes["threshold"],)
