"""Size of one tensor with the sign of another (torch.copysign); zeros have no sign."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite


class CopySign(Composite):
    """A choice between the absolute value and its negative."""

    name = "copysign"
    targets = ("aten.copysign.Tensor", "aten.copysign.Scalar")

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        size, sign = aten.abs.default(operands["data_in_0"]), operands["data_in_1"]
        return [aten.where.self(aten.lt.Scalar(sign, 0), aten.neg.default(size), size)]

    def examples(self) -> list[Example]:
        return [(Apply(torch.copysign), (example_values(2, 5), example_values(2, 5, seed=1)))]
