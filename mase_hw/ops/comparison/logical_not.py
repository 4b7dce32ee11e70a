"""Where a tensor is zero, 1, else 0 (torch.logical_not, `~` of a mask)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite


class LogicalNot(Composite):
    """A comparison with zero."""

    name = "logical_not"
    targets = ("aten.logical_not.default", "aten.bitwise_not.default")

    def problems(self, call: Call) -> list[str]:
        """Refuse the bits of whole numbers."""
        if call.result.dtype != "bool":
            return ["the bits of whole numbers are turned; only masks have hardware"]
        return super().problems(call)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        if call.result.dtype != "bool":
            return None
        return [aten.eq.Scalar(operands["data_in_0"], 0)]

    def examples(self) -> list[Example]:
        """A mask; one that becomes numbers; numbers that become one."""
        values = example_values(2, 5)
        return [
            (Apply(lambda x: torch.where(~(x > 0), x, 0.0)), (values,)),
            (Apply(lambda x: (~(x > 0)).float() * 0.75), (values,)),
            (Apply(lambda x: torch.where(~x.relu().bool(), 0.5, x)), (values,)),
        ]
