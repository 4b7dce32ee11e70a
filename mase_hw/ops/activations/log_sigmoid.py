"""Logarithm of the sigmoid: `-log(1 + exp(-x))` (`torch.nn.LogSigmoid`)."""

from __future__ import annotations

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary


class LogSigmoid(Unary):
    """Logarithm of the sigmoid."""

    name = "log_sigmoid"
    targets = ("aten.log_sigmoid.default",)

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return -math.softplus(-x)
