"""Distances of the rows of two matrices (torch.cdist)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example, example_values
from mase_hw.ops._composite import Composite


class CDist(Composite):
    """Rows are subtracted, each from each."""

    name = "cdist"
    targets = ("aten.cdist.default", "aten._cdist_forward.default")
    operand_names: Mapping[str, str] = {"x1": "data_in_0", "x2": "data_in_1"}

    def problems(self, call: Call) -> list[str]:
        if float(call.attributes["p"]) not in (1.0, 2.0):
            return [f"p is {call.attributes['p']:g}; allowed: 1, 2"]
        return super().problems(call)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        if float(call.attributes["p"]) not in (1.0, 2.0):
            return None
        first = aten.unsqueeze.default(operands["data_in_0"], -2)
        second = aten.unsqueeze.default(operands["data_in_1"], -3)
        apart = aten.sub.Tensor(first, second)
        if call.attributes["p"] == 1:
            return [aten.sum.dim_IntList(aten.abs.default(apart), [-1])]
        return [aten.sqrt.default(aten.sum.dim_IntList(aten.square.default(apart), [-1]))]

    def examples(self) -> list[Example]:
        """Streams; the rows of a constant; sums of absolute values."""
        values, others = example_values(2, 3, 4), example_values(2, 2, 4, seed=1)
        return [
            example(torch.cdist, values, others),
            example(Apply(torch.cdist, example_values(5, 4, seed=2)), values),
            example(lambda x, y: torch.cdist(x, y, p=1.0), values, others),
        ]
