"""Sums of a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.formats import Format, make_format
from mase_hw.formats.fixed import MIN_WIDTH_BITS
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite
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
        """Over lanes, over rows, over both."""
        return [
            (Apply(lambda x: x.sum(-1)), (example_values(2, 3, 7),)),
            (Apply(lambda x: x.sum(1, keepdim=True)), (example_values(2, 3, 4),)),
            (Apply(lambda x: x.sum((1, 2))), (example_values(2, 2, 5),)),
            (Apply(lambda x: (x > 0).sum(-1)), (example_values(2, 3, 5),)),
        ]


class Nansum(Composite):
    """Sums of what is a number (torch.nansum): here everything is one."""

    name = "nansum"
    targets = ("aten.nansum.default",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        dims, keeps = call.attributes.get("dim"), bool(call.attributes.get("keepdim", False))
        dims = list(range(len(call.operands["data_in_0"].shape))) if dims is None else dims
        return [aten.sum.dim_IntList(operands["data_in_0"], dims, keeps)]

    def examples(self) -> list[Example]:
        return [(Apply(lambda x: torch.nansum(x, -1)), (example_values(2, 5),))]
