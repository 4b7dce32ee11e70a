"""Powers of constants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Apply, Attributes, Call, Example, example_values
from mase_hw.ops._unary import Unary


class Exp(Unary):
    """Exponential: `exp(x)` (`torch.exp`)."""

    name = "exp"
    targets = ("aten.exp.default", "aten.exp_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.exp(x)


class Exp2(Unary):
    """Power of two: `2 ** x` (`torch.exp2`)."""

    name = "exp2"
    targets = ("aten.exp2.default", "aten.exp2_.default", "aten.special_exp2.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.power(2.0, x)


class Expm1(Unary):
    """Exponential less one: `exp(x) - 1` (`torch.expm1`)."""

    name = "expm1"
    targets = ("aten.expm1.default", "aten.expm1_.default", "aten.special_expm1.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.expm1(x)


class BasePower(Unary):
    """Power of a constant: `base ** x` (`torch.pow` of a number and a tensor)."""

    name = "base_power"
    targets = ("aten.pow.Scalar",)
    operand_names: ClassVar[Mapping[str, str]] = {"exponent": "data_in_0"}
    required_attributes: ClassVar[Attributes] = {"self": 2.0}

    def problems(self, call: Call) -> list[str]:
        """Also refuse a base that has no real powers."""
        base = float(call.attributes["self"])
        if base <= 0:
            return [f"{base:g} has no real powers of every exponent; a base is positive"]
        return super().problems(call)

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.power(float(attributes["self"]), x)

    def examples(self) -> list[Example]:
        values = example_values(3, 11)
        return [
            (Apply(lambda x: torch.pow(2.0, x)), (values,)),
            (Apply(lambda x: torch.pow(0.5, x)), (values,)),
        ]
