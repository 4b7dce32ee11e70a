"""Difference with the operands exchanged, `y = b - a` (torch.rsub), as in `1 - x`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from mase_hw.ops.arithmetic.sub import Sub


class ReverseSub(Sub):
    """Element-wise difference of the second operand and the first."""

    name = "rsub"
    targets = ("aten.rsub.Tensor", "aten.rsub.Scalar")
    operand_names: ClassVar[Mapping[str, str]] = {"self": "data_in_1", "other": "data_in_0"}
