"""Activations with two slopes, or an exponential beside one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from torch import Tensor, nn

from mase_hw._aten import aten
from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes, Call, Example, example_values
from mase_hw.ops._composite import Composite
from mase_hw.ops._unary import Unary
from mase_hw.ops.activations._clamp import Clamp as _Clamp


class ReLU(_Clamp):
    """Rectifier: `max(x, 0)` (`torch.nn.ReLU`)."""

    name = "relu"
    targets = ("aten.relu.default", "aten.relu_.default")
    keeps_format = True

    def bounds(self, attributes: Attributes) -> tuple[float, float]:
        """Return the bounds (low, high) of the result."""
        return 0.0, float("inf")


class ReLU6(_Clamp):
    """Rectifier bounded at 6: `min(max(x, 0), 6)` (`torch.nn.functional.relu6`)."""

    name = "relu6"
    targets = ("aten.relu6.default", "aten.relu6_.default")
    keeps_format = True

    def bounds(self, attributes: Attributes) -> tuple[float, float]:
        """Return the bounds (low, high) of the result."""
        return 0.0, 6.0


class LeakyReLU(Unary):
    """Leaky rectifier: `x` if `x > 0`, else `negative_slope * x` (`torch.nn.LeakyReLU`)."""

    name = "leaky_relu"
    targets = ("aten.leaky_relu.default", "aten.leaky_relu_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        slope = attributes.get("negative_slope", 0.01)
        return math.where(x > 0, x, x * slope)


class Hardtanh(_Clamp):
    """Bounded identity: `min(max(x, min_val), max_val)` (`torch.nn.Hardtanh`, `torch.nn.ReLU6`)."""

    name = "hardtanh"
    targets = ("aten.hardtanh.default", "aten.hardtanh_.default")
    keeps_format = True

    def bounds(self, attributes: Attributes) -> tuple[float, float]:
        """Return the bounds (low, high) of the result."""
        return float(attributes.get("min_val", -1.0)), float(attributes.get("max_val", 1.0))


class Threshold(Unary):
    """Threshold: `x` if `x > threshold`, else `value` (`torch.nn.Threshold`)."""

    name = "threshold"
    targets = ("aten.threshold.default", "aten.threshold_.default")
    required_attributes = MappingProxyType({"threshold": 0.1, "value": 0.7})

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.where(x > attributes["threshold"], x, attributes["value"] + 0 * x)

    def knots(self, attributes: Attributes) -> Sequence[float]:
        return (attributes["threshold"],)


class RReLU(Composite):
    """Randomized leaky rectifier at inference, its slope the mean of its bounds (nn.RReLU)."""

    name = "rrelu"
    targets = ("aten.rrelu.default",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor]:
        slope = (float(call.attributes["lower"]) + float(call.attributes["upper"])) / 2
        return [aten.leaky_relu.default(operands["data_in_0"], slope)]

    def examples(self) -> list[Example]:
        return [(nn.RReLU(0.1, 0.4), (example_values(3, 7),))]


class Softplus(Unary):
    """Softplus: `log(1 + exp(beta * x)) / beta`, `x` beyond `threshold` (`torch.nn.Softplus`)."""

    name = "softplus"
    targets = ("aten.softplus.default",)

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        beta = attributes.get("beta", 1.0)
        linear = x * beta > attributes.get("threshold", 20.0)
        return math.where(linear, x, math.softplus(x * beta) / beta)

    def knots(self, attributes: Attributes) -> Sequence[float]:
        return (attributes.get("threshold", 20.0) / attributes.get("beta", 1.0),)


class ELU(Unary):
    """Exponential linear unit: `x` if `x > 0`, else `alpha * (exp(x) - 1)` (`torch.nn.ELU`)."""

    name = "elu"
    targets = ("aten.elu.default", "aten.elu_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        scale: float = attributes.get("scale", 1.0)
        left = attributes.get("alpha", 1.0) * math.expm1(x * attributes.get("input_scale", 1.0))
        return math.where(x > 0, x, left) * scale


# Klambauer et al. 2017, arXiv:1706.02515, as torch has them.
ALPHA = 1.6732632423543772848170429916717
SCALE = 1.0507009873554804934193349852946


class SELU(Unary):
    """Self-normalizing exponential linear unit: `elu` with fixed factors (`torch.nn.SELU`)."""

    name = "selu"
    targets = ("aten.selu.default", "aten.selu_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return SCALE * math.where(x > 0, x, ALPHA * math.expm1(x))


class CELU(Unary):
    """Continuous ELU: `x` if `x > 0`, else `alpha * (exp(x / alpha) - 1)` (`torch.nn.CELU`)."""

    name = "celu"
    targets = ("aten.celu.default", "aten.celu_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        alpha = attributes.get("alpha", 1.0)
        return math.where(x > 0, x, alpha * math.expm1(x / alpha))
