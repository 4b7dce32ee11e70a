"""Step: 0 below zero, 1 above, and at zero what is given (torch.heaviside)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite


class Heaviside(Composite):
    """A comparison, and a choice."""

    name = "heaviside"
    targets = ("aten.heaviside.default",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        data, middle = operands["data_in_0"], operands["values"]
        above = aten.where.Scalar(aten.gt.Scalar(data, 0), 1.0, 0.0)
        return [aten.where.self(aten.eq.Scalar(data, 0), middle, above)]

    def examples(self) -> list[Example]:
        values = example_values(2, 5).relu() - example_values(2, 5, seed=1).relu()
        return [
            (Apply(torch.heaviside, torch.tensor(0.5)), (values,)),
            (Apply(torch.heaviside), (values, example_values(2, 5, seed=2))),
        ]
