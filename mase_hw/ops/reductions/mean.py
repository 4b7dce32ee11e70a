"""Mean over dimensions (torch.mean): an exact sum divided by the count, rounded once."""

from __future__ import annotations

from math import prod

from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops.reductions._reduce import Accumulation


class Mean(Accumulation):
    """`y = cast(sum x / n)`."""

    name = "mean"
    targets = ("aten.mean.dim", "aten.mean.default")

    def divisor(self, call: Call) -> int:
        """The number of elements of a mean."""
        shape = call.operands["data_in_0"].shape
        return prod(shape[dim] for dim in self.dims(call))

    def examples(self) -> list[Example]:
        """Of an image's pixels, and of rows."""
        return [
            (Apply(lambda x: x.mean((2, 3))), (example_values(2, 5, 3, 2),)),
            (Apply(lambda x: x.mean(-1, keepdim=True)), (example_values(2, 3, 7),)),
        ]
