"""Largest element along a dimension and its index (torch.max), either of them or both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite


class Max(Composite):
    """Of equal elements the first one has the index."""

    name = "max"
    targets = ("aten.max.dim",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor]:
        """The maximum, and where it is."""
        data, dim = operands["data_in_0"], int(call.attributes["dim"])
        keepdim = bool(call.attributes["keepdim"])
        return [
            aten.amax.default(data, [dim], keepdim),
            aten.argmax.default(data, dim, keepdim),
        ]

    def examples(self) -> list[Example]:
        """Values; indices; both are a test of their own."""
        return [
            (Apply(lambda x: x.max(1).values), (example_values(2, 3, 4),)),
            (Apply(lambda x: x.max(-1, keepdim=True).indices), (example_values(2, 5),)),
        ]
