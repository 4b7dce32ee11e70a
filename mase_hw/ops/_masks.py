"""What operators on masks share: truths are 0 and 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from mase_hw.ops._base import Call


def mask_problems(call: Call) -> list[str]:
    """Refuse an operator on the bits of whole numbers."""
    if call.result.dtype != "bool":
        return ["it combines the bits of whole numbers; only masks have hardware"]
    return []


def truths(call: Call, operands: Mapping[str, Any]) -> list[Any]:
    """Return each operand as 0 and 1; numbers hold where they are not zero."""
    return [
        value if call.operands[name].dtype == "bool" else torch.ops.aten.ne.Scalar(value, 0)
        for name, value in operands.items()
    ]
