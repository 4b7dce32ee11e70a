"""The elements of short rows in their order, and their indices (torch.sort, torch.argsort)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops.reductions._ranks import Ranked, at_places, dimension


class Sort(Ranked):
    """Equal elements stay in their order."""

    name = "sort"
    targets = ("aten.sort.default", "aten.sort.stable")

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Return all places of the order."""
        size = call.result.shape[dimension(call)]
        descending = bool(call.attributes.get("descending", False))
        return at_places(call, operands["data_in_0"], range(size), descending=descending)

    def examples(self) -> list[Example]:
        """Rows; another dimension, from the largest, with equal elements."""
        return [
            (Apply(lambda x: torch.sort(x).values), (example_values(2, 5),)),
            (
                Apply(lambda x: torch.sort(x.relu(), dim=1, descending=True, stable=True)[1]),
                (example_values(2, 4, 2),),
            ),
        ]
