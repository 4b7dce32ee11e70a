"""Difference of two tensors, `y = a - b` (torch.sub), exact and rounded once."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from mase_hw.ops.arithmetic.add import Add


class Sub(Add):
    """Element-wise difference."""

    name: ClassVar[str] = "sub"
    targets: ClassVar[tuple[str, ...]] = ("aten.sub.Tensor", "aten.sub.Scalar")
    operation: ClassVar[str] = "subtract"
    opposite: ClassVar[str] = "add"

    def combine_values(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the real result."""
        return first - second
