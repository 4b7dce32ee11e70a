"""The element in the middle of short rows, and its index (torch.median): of two the smaller one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops.reductions._ranks import Ranked, at_places, dimension, reduced_shape


class Median(Ranked):
    """One place of the order."""

    name = "median"
    targets = ("aten.median.dim", "aten.nanmedian.dim")

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Return the element and its index."""
        size = call.operands["data_in_0"].shape[dimension(call)]
        found = at_places(call, operands["data_in_0"], [(size - 1) // 2])
        return reduced_shape(call, found)

    def examples(self) -> list[Example]:
        """An odd and an even number of elements."""
        return [
            (Apply(lambda x: torch.median(x, -1)[0]), (example_values(2, 5),)),
            (Apply(lambda x: torch.median(x, 1, keepdim=True)[1]), (example_values(2, 4, 2),)),
        ]
