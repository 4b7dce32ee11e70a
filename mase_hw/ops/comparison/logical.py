"""Logical operators on what is zero and what is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite
from mase_hw.ops.comparison._masks import MaskPair


class LogicalAnd(MaskPair):
    """Where both hold, 1, else 0 (torch.logical_and, `&` of masks)."""

    name = "logical_and"
    targets = (
        "aten.logical_and.default",
        "aten.bitwise_and.Tensor",
        "aten.__and__.Tensor",
    )

    def combined(self, first: Tensor, second: Tensor) -> Tensor:
        return aten.minimum.default(first, second)


class LogicalOr(MaskPair):
    """Where one or both hold, 1, else 0 (torch.logical_or, `|` of masks)."""

    name = "logical_or"
    targets = (
        "aten.logical_or.default",
        "aten.bitwise_or.Tensor",
        "aten.__or__.Tensor",
    )

    def combined(self, first: Tensor, second: Tensor) -> Tensor:
        return aten.maximum.default(first, second)


class LogicalXor(MaskPair):
    """Where one but not both hold, 1, else 0 (torch.logical_xor, `^` of masks)."""

    name = "logical_xor"
    targets = (
        "aten.logical_xor.default",
        "aten.bitwise_xor.Tensor",
        "aten.__xor__.Tensor",
    )

    def combined(self, first: Tensor, second: Tensor) -> Tensor:
        return aten.ne.Tensor(first, second)


class LogicalNot(Composite):
    """Where a tensor is zero, 1, else 0 (torch.logical_not, `~` of a mask)."""

    name = "logical_not"
    targets = ("aten.logical_not.default", "aten.bitwise_not.default")

    def problems(self, call: Call) -> list[str]:
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
