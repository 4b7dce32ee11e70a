"""A point between two tensors (torch.lerp)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite


class Lerp(Composite):
    """`start + weight * (end - start)`."""

    name = "lerp"
    targets = ("aten.lerp.Scalar", "aten.lerp.Tensor")

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        start, end = operands["data_in_0"], operands["end"]
        weight = operands["weight"] if "weight" in operands else call.attributes["weight"]
        return [aten.add.Tensor(start, aten.mul.Tensor(aten.sub.Tensor(end, start), weight))]

    def examples(self) -> list[Example]:
        values, others = example_values(2, 5), example_values(2, 5, seed=1)
        return [
            (Apply(lambda x, y: torch.lerp(x, y, 0.25)), (values, others)),
            (Apply(torch.lerp), (values, others, example_values(2, 5, seed=2))),
        ]
