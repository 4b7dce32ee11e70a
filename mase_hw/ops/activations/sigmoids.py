"""Activations between two limits."""

from __future__ import annotations

from collections.abc import Sequence

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._judging import Judged
from mase_hw.ops._unary import Unary


class Sigmoid(Unary, Judged):
    """Logistic sigmoid: `1 / (1 + exp(-x))` (`torch.nn.Sigmoid`)."""

    one_scale = True
    name = "sigmoid"
    targets = ("aten.sigmoid.default", "aten.special_expit.default", "aten.sigmoid_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.sigmoid(x)


class LogSigmoid(Unary, Judged):
    """Logarithm of the sigmoid: `-log(1 + exp(-x))` (`torch.nn.LogSigmoid`)."""

    one_scale = True
    name = "log_sigmoid"
    targets = ("aten.log_sigmoid.default",)

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return -math.softplus(-x)


class Hardsigmoid(Unary, Judged):
    """Hard sigmoid: `min(max(x + 3, 0), 6) / 6` (`torch.nn.Hardsigmoid`)."""

    one_scale = True
    name = "hardsigmoid"
    targets = ("aten.hardsigmoid.default", "aten.hardsigmoid_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.clip(x + 3, 0.0, 6.0) / 6

    def knots(self, attributes: Attributes) -> Sequence[float]:
        return (-3.0, 3.0)


class Tanh(Unary):
    """Hyperbolic tangent: `tanh(x)` (`torch.nn.Tanh`)."""

    name = "tanh"
    targets = ("aten.tanh.default", "aten.tanh_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.tanh(x)
