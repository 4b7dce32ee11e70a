"""The base of functions `min(max(x, low), high)`, see `mase_hw.approximation.bounded`."""

from __future__ import annotations

from abc import abstractmethod

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Clamp(Unary):
    """A function `min(max(x, low), high)`; subclasses say the bounds."""

    @abstractmethod
    def bounds(self, attributes: Attributes) -> tuple[float, float]:
        """Return (low, high), infinite where there is none."""

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.clip(x, *self.bounds(attributes))
