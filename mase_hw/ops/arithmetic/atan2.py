"""The angle of a vector of two elements (torch.atan2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import pi
from typing import ClassVar

import torch
from torch import Tensor

from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite

_aten = torch.ops.aten


class Atan2(Composite):
    """The arctangent of the quotient, half a turn further behind the vertical axis."""

    name: ClassVar[str] = "atan2"
    targets: ClassVar[tuple[str, ...]] = ("aten.atan2.default",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Return the sum of both."""
        y, x = operands.values()
        angle = _aten.atan.default(_aten.div.Tensor(y, x))
        half = _aten.where.Scalar(_aten.lt.Scalar(y, 0.0), -pi, pi)
        turn = _aten.where.ScalarOther(_aten.lt.Scalar(x, 0.0), half, 0.0)
        return [_aten.add.Tensor(angle, turn)]

    def examples(self) -> list[Example]:
        """Vectors in all quarters."""
        return [(Apply(torch.atan2), (example_values(3, 6), example_values(3, 6, seed=1)))]
