"""Negation: `-x` (`torch.neg`)."""

from __future__ import annotations

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Neg(Unary):
    """Negation: `-x` in the format of the result."""

    name = "neg"
    targets = ("aten.neg.default", "aten.neg_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return -x
