"""Trigonometric functions of angles in radians, and their inverses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.approximation import Domain, Real, RealMath
from mase_hw.ops._base import Apply, Attributes, Call, Example, example_values
from mase_hw.ops._composite import Composite
from mase_hw.ops._unary import Unary


class Sin(Unary):
    """Sine: `sin(x)` (`torch.sin`)."""

    name = "sin"
    targets = ("aten.sin.default", "aten.sin_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.sin(x)


class Cos(Unary):
    """Cosine: `cos(x)` (`torch.cos`)."""

    name = "cos"
    targets = ("aten.cos.default", "aten.cos_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.cos(x)


class Tan(Composite):
    """Tangent (torch.tan), a quotient of sine and cosine, each rounded: coarse near the poles."""

    name = "tan"
    targets = ("aten.tan.default",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        data = operands["data_in_0"]
        return [aten.div.Tensor(aten.sin.default(data), aten.cos.default(data))]

    def examples(self) -> list[Example]:
        """Angles of less than a quarter turn."""
        return [(Apply(lambda x: torch.tan(x.clamp(-1.0, 1.0))), (example_values(3, 7),))]


class Asin(Unary):
    """Inverse sine: `asin(x)` (`torch.asin`), beyond -1 and 1 what these give."""

    name = "asin"
    targets = ("aten.asin.default", "aten.asin_.default", "aten.arcsin.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.asin(x)

    def domain(self, attributes: Attributes) -> Domain:
        return Domain(low=-1.0, high=1.0)


class Acos(Unary):
    """Inverse cosine: `acos(x)` (`torch.acos`), beyond -1 and 1 what these give."""

    name = "acos"
    targets = ("aten.acos.default", "aten.acos_.default", "aten.arccos.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.pi / 2 - math.asin(x)

    def domain(self, attributes: Attributes) -> Domain:
        return Domain(low=-1.0, high=1.0)


class Atan(Unary):
    """Inverse tangent: `atan(x)` (`torch.atan`)."""

    name = "atan"
    targets = ("aten.atan.default", "aten.atan_.default", "aten.arctan.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.atan(x)


class Sinc(Unary):
    """Normalized cardinal sine: `sin(pi x) / (pi x)`, of 0 one (`torch.sinc`)."""

    name = "sinc"
    targets = ("aten.sinc.default", "aten.sinc_.default", "aten.special_sinc.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        angle = math.pi * math.where(x == 0, x + 1, x)
        return math.where(x == 0, x + 1, math.sin(angle) / angle)
