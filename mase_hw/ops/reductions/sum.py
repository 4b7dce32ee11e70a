"""Sums of a row."""

from __future__ import annotations

from math import prod

from mase_hw.formats import Format, make_format
from mase_hw.formats.fixed import MIN_WIDTH_BITS
from mase_hw.ops._base import Call, Example, example
from mase_hw.ops._numbers import Numeric
from mase_hw.ops.reductions._reduce import Accumulation


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
