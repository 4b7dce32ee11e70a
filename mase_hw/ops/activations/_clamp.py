"""The base of functions `min(max(x, low), high)`, see `mase_hw.approximation.bounded`."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from mase_hw.approximation import RealMath
from mase_hw.ops._unary import Attributes, Unary


class Clamp(Unary):
    """A function `min(max(x, low), high)`; subclasses say the bounds."""

    @abstractmethod
    def bounds(self, attributes: Attributes) -> tuple[float, float]:
        """Return (low, high), infinite where there is none."""

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        """Return the bounded value."""
        return math.clip(x, *self.bounds(attributes))
