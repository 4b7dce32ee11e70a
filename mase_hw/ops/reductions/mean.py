"""Means of a row."""

from __future__ import annotations

from math import prod

from mase_hw.ops._base import Call, Example, example
from mase_hw.ops.reductions._reduce import Accumulation


class Mean(Accumulation):
    """Mean over dimensions (torch.mean): an exact sum divided by the count, rounded once."""

    name = "mean"
    targets = ("aten.mean.dim", "aten.mean.default")

    def divisor(self, call: Call) -> int:
        """The number of elements of a mean."""
        shape = call.operands["data_in_0"].shape
        return prod(shape[dim] for dim in self.dims(call))

    def examples(self) -> list[Example]:
        return [
            example(lambda x: x.mean((2, 3)), (2, 5, 3, 2)),
            example(lambda x: x.mean(-1, keepdim=True), (2, 3, 7)),
        ]
