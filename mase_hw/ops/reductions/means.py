"""Means of a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite
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
        """Of an image's pixels, and of rows."""
        return [
            (Apply(lambda x: x.mean((2, 3))), (example_values(2, 5, 3, 2),)),
            (Apply(lambda x: x.mean(-1, keepdim=True)), (example_values(2, 3, 7),)),
        ]


class Nanmean(Composite):
    """Means of what is a number (torch.nanmean): here everything is one."""

    name = "nanmean"
    targets = ("aten.nanmean.default",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        dims, keeps = call.attributes.get("dim"), bool(call.attributes.get("keepdim", False))
        dims = list(range(len(call.operands["data_in_0"].shape))) if dims is None else dims
        return [aten.mean.dim(operands["data_in_0"], dims, keeps)]

    def examples(self) -> list[Example]:
        return [(Apply(lambda x: torch.nanmean(x, -1)), (example_values(2, 5),))]
