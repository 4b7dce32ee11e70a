"""A product with a logarithm (torch.xlogy)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite


class XLogY(Composite):
    """The logarithm is rounded before."""

    name = "xlogy"
    targets = ("aten.xlogy.Tensor",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        first, second = operands.values()
        return [aten.mul.Tensor(first, aten.log.default(second))]

    def examples(self) -> list[Example]:
        return [
            (
                Apply(lambda x, y: torch.xlogy(x, y)),
                (example_values(2, 5), example_values(2, 5, seed=1).abs() + 0.1),
            )
        ]
