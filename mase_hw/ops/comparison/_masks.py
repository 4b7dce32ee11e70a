"""Masks, whose elements are 0 and 1."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Call


def refuse_bits(call: Call) -> list[str]:
    """Refuse operands that are whole numbers, whose bits torch combines."""
    if call.result.dtype != "bool":
        return ["it combines the bits of whole numbers; only masks have hardware"]
    return []


def truths(call: Call, operands: Sequence[Tensor]) -> list[Tensor]:
    """Return each operand as 0 and 1; numbers hold where they are not zero."""
    return [
        operand if spec.dtype == "bool" else aten.ne.Scalar(operand, 0)
        for spec, operand in zip(call.operands.values(), operands, strict=True)
    ]
