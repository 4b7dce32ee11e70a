"""Logistic sigmoid: `1 / (1 + exp(-x))` (`torch.nn.Sigmoid`)."""

from __future__ import annotations

from typing import Any

from mase_hw.approximation import RealMath
from mase_hw.ops._unary import Attributes, Unary


class Sigmoid(Unary):
    """Logistic sigmoid."""

    name = "sigmoid"
    targets = ("aten.sigmoid.default", "aten.special_expit.default", "aten.sigmoid_.default")

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        return math.sigmoid(x)
