"""Logistic sigmoid: `1 / (1 + exp(-x))` (`torch.nn.Sigmoid`)."""

from __future__ import annotations

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class Sigmoid(Unary):
    """Logistic sigmoid: `1 / (1 + exp(-x))`."""

    name = "sigmoid"
    targets = ("aten.sigmoid.default", "aten.special_expit.default", "aten.sigmoid_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.sigmoid(x)
