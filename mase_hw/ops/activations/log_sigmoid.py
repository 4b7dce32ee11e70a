"""Logarithm of the sigmoid: `-log(1 + exp(-x))` (`torch.nn.LogSigmoid`)."""

from __future__ import annotations

from typing import Any

from mase_hw.approximation import RealMath
from mase_hw.ops._unary import Attributes, Unary


class LogSigmoid(Unary):
    """Logarithm of the sigmoid."""

    name = "log_sigmoid"
    targets = ("aten.log_sigmoid.default",)

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        return -math.softplus(-x)
