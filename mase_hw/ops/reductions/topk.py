"""The largest or smallest elements of short rows, and their indices (torch.topk)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops.reductions._ranks import Ranked, at_places


class TopK(Ranked):
    """They come in their order, which torch leaves open for `sorted=False`."""

    name = "topk"
    targets = ("aten.topk.default",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Return the first places of the order."""
        places = range(int(call.attributes["k"]))
        descending = bool(call.attributes.get("largest", True))
        return at_places(call, operands["data_in_0"], places, descending=descending)

    def examples(self) -> list[Example]:
        """Both results; the smallest along another dimension."""

        def both(x: Tensor) -> Any:
            return torch.topk(x, 2)

        return [
            (Apply(both), (example_values(2, 6),)),
            (Apply(lambda x: torch.topk(x, 1, 1, largest=False)[1]), (example_values(2, 3, 2),)),
        ]
