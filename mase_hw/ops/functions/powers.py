"""Powers: of a variable with a constant exponent, of a constant with a variable one."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from types import MappingProxyType

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.approximation import Domain, Real, RealMath
from mase_hw.ops._base import Attributes, Call, Example, example
from mase_hw.ops._composite import composition
from mase_hw.ops._unary import Unary

# Powers beyond are 0, 1 and infinity.
_MOST = 1 << 31


class Pow(Unary):
    """Power with a constant exponent: `x**exponent` (`torch.pow`).

    Whole exponents and halves are products, roots and reciprocals; any other one is `exp(exponent *
    log(x))`. Of negative numbers only whole powers are defined; others are as of zero.
    """

    name = "pow"
    targets = ("aten.pow.Tensor_Scalar", "aten.pow_.Scalar")
    required_attributes = MappingProxyType({"exponent": 3})

    def problems(self, call: Call) -> list[str]:
        exponent = call.attributes["exponent"]
        if not abs(exponent) < _MOST:
            return [f"its exponent is {exponent}; allowed are numbers from -{_MOST} to {_MOST}"]
        return super().problems(call)

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        exponent = attributes["exponent"]
        size = abs(exponent)
        if size == int(size):
            power = x ** (int(size) if size < _MOST else size)
        elif 2 * size == int(2 * size):
            power = math.sqrt(x) ** int(2 * size)
        else:
            # The logarithm of zero is none, its power is zero.
            logarithm = math.log(math.where(x == 0, x + 1, x))
            power = math.where(x == 0, x, math.exp(size * logarithm))
        return 1 / power if exponent < 0 else power

    def domain(self, attributes: Attributes) -> Domain:
        exponent = attributes["exponent"]
        low = -inf if exponent == int(exponent) else 0.0
        return Domain(low, poles={0.0: inf} if exponent < 0 else {})

    def examples(self) -> list[Example]:
        return [
            example(lambda x: x**3, (3, 5)),
            example(lambda x: torch.pow(x, -2), (3, 5)),
            example(lambda x: x.abs() ** 1.5, (3, 5)),
            example(lambda x: (x * x + 1) ** -2.5, (3, 5)),
            example(lambda x: x.abs() ** 0.3, (3, 5)),
        ]


class BasePower(Unary):
    """Power of a constant: `base ** x` (`torch.pow` of a number and a tensor)."""

    name = "base_power"
    targets = ("aten.pow.Scalar",)
    operand_names: Mapping[str, str] = {"exponent": "data_in_0"}
    required_attributes = MappingProxyType({"self": 2.0})

    def problems(self, call: Call) -> list[str]:
        base = float(call.attributes["self"])
        if base <= 0:
            return [f"{base:g} has no real powers of every exponent; a base is positive"]
        return super().problems(call)

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.power(float(attributes["self"]), x)

    def examples(self) -> list[Example]:
        return [
            example(lambda x: torch.pow(2.0, x), (3, 11)),
            example(lambda x: torch.pow(0.5, x), (3, 11)),
        ]


@composition(
    "aten.sign.default",
    "aten.sgn.default",
    examples=lambda: [example(lambda x: torch.sign(x.relu() - 0.5), (3, 7))],
)
def sign(call: Call, data: Tensor) -> Tensor:
    """Two comparisons with zero, and the choices between them (torch.sign)."""
    negative = aten.where.Scalar(aten.lt.Scalar(data, 0), -1.0, 0.0)
    return aten.where.ScalarSelf(aten.gt.Scalar(data, 0), 1.0, negative)


@composition(
    "aten.tan.default",
    examples=lambda: [example(lambda x: torch.tan(x.clamp(-1.0, 1.0)), (3, 7))],
)
def tan(call: Call, data: Tensor) -> Tensor:
    """Quotient of sine and cosine (torch.tan), each rounded: coarse near the poles."""
    return aten.div.Tensor(aten.sin.default(data), aten.cos.default(data))
