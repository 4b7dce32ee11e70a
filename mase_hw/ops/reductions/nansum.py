"""Sums of what is a number (torch.nansum): here everything is one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite


class Nansum(Composite):
    """Sums of what is a number: here everything is one."""

    name = "nansum"
    targets = ("aten.nansum.default",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        dims, keeps = call.attributes.get("dim"), bool(call.attributes.get("keepdim", False))
        dims = list(range(len(call.operands["data_in_0"].shape))) if dims is None else dims
        return [aten.sum.dim_IntList(operands["data_in_0"], dims, keeps)]

    def examples(self) -> list[Example]:
        return [(Apply(lambda x: torch.nansum(x, -1)), (example_values(2, 5),))]
