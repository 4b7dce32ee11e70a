"""Length of a vector of two elements (torch.hypot)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite


class Hypot(Composite):
    """The root of the sum of two squares."""

    name = "hypot"
    targets = ("aten.hypot.default",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        squares = [aten.square.default(value) for value in operands.values()]
        return [aten.sqrt.default(aten.add.Tensor(*squares))]

    def examples(self) -> list[Example]:
        return [(Apply(torch.hypot), (example_values(2, 5), example_values(2, 5, seed=1)))]
