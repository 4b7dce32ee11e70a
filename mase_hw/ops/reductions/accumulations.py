"""Largest elements, means and sums over dimensions."""

from __future__ import annotations

from math import prod

from mase_hw.formats import Format, make_format
from mase_hw.formats.fixed import MIN_WIDTH_BITS
from mase_hw.ops._base import Call, Example, example
from mase_hw.ops._numbers import Numeric, Selecting
from mase_hw.ops.reductions._reduce import Accumulation


class Amax(Accumulation, Selecting, Numeric):
    """Largest element over dimensions (torch.amax)."""

    name = "amax"
    targets = ("aten.amax.default", "aten.max.default")
    maximum = True
    keeps_format = True

    def divisor(self, call: Call) -> int:
        return 1

    def examples(self) -> list[Example]:
        return [
            example(lambda x: x.amax(-1), (2, 3, 7)),
            example(lambda x: x.amax((2, 3), keepdim=True), (2, 5, 3, 2)),
        ]


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


class Sum(Accumulation, Numeric):
    """Sum over dimensions (torch.sum), exact and rounded once."""

    name = "sum"
    targets = ("aten.sum.dim_IntList",)

    def result_format(self, call: Call) -> Format | None:
        """Enough bits to count all that holds, where masks are summed."""
        if call.operands["data_in_0"].dtype != "bool" or not call.result.dtype.startswith("int"):
            return None
        shape = call.operands["data_in_0"].shape
        width = prod(shape[dim] for dim in self.dims(call)).bit_length()
        fields = {"width": max(MIN_WIDTH_BITS, width), "frac_width": 0, "signed": False}
        return make_format({"name": "fixed", **fields})

    def divisor(self, call: Call) -> int:
        return 1

    def examples(self) -> list[Example]:
        return [
            example(lambda x: x.sum(-1), (2, 3, 7)),
            example(lambda x: x.sum(1, keepdim=True), (2, 3, 4)),
            example(lambda x: x.sum((1, 2)), (2, 2, 5)),
            example(lambda x: (x > 0).sum(-1), (2, 3, 5)),
        ]
