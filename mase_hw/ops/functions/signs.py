"""Functions of the sign of a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Apply, Attributes, Call, Example, example_values
from mase_hw.ops._composite import Composite
from mase_hw.ops._unary import Unary


class Abs(Unary):
    """Absolute value: `|x|` (`torch.abs`)."""

    name = "abs"
    targets = ("aten.abs.default", "aten.abs_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return abs(x)


class Neg(Unary):
    """Negation: `-x` in the format of the result."""

    name = "neg"
    targets = ("aten.neg.default", "aten.neg_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return -x


class Sign(Composite):
    """Two comparisons with zero, and the choices between them."""

    name = "sign"
    targets = ("aten.sign.default", "aten.sgn.default")

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        data, aten = operands["data_in_0"], torch.ops.aten
        negative = aten.where.Scalar(aten.lt.Scalar(data, 0), -1.0, 0.0)
        return [aten.where.ScalarSelf(aten.gt.Scalar(data, 0), 1.0, negative)]

    def examples(self) -> list[Example]:
        return [(Apply(lambda x: torch.sign(x.relu() - 0.5)), (example_values(3, 7),))]
