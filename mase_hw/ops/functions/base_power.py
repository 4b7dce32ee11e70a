"""Power of a constant: `base ** x` (`torch.pow` of a number and a tensor)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Apply, Attributes, Call, Example, example_values
from mase_hw.ops._unary import Unary


class BasePower(Unary):
    """Power of a positive constant."""

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
        """Powers of two numbers."""
        values = example_values(3, 11)
        return [
            (Apply(lambda x: torch.pow(2.0, x)), (values,)),
            (Apply(lambda x: torch.pow(0.5, x)), (values,)),
        ]
