"""Smallest element along a dimension and its index (torch.min), either of them or both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite


class Min(Composite):
    """Of equal elements the first one has the index."""

    name = "min"
    targets = ("aten.min.dim",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor]:
        """The minimum, and where it is."""
        data, dim = operands["data_in_0"], int(call.attributes["dim"])
        keeps = bool(call.attributes["keepdim"])
        return [aten.amin.default(data, [dim], keeps), aten.argmin.default(data, dim, keeps)]

    def examples(self) -> list[Example]:
        return [
            (Apply(lambda x: x.min(1).values), (example_values(2, 3, 4),)),
            (Apply(lambda x: x.min(-1, keepdim=True).indices), (example_values(2, 5),)),
        ]
