"""Product of two tensors, `y = a * b` (torch.mul), exact and rounded once."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from mase_hw.ops._binary import Binary


class Mul(Binary):
    """Element-wise product."""

    name: ClassVar[str] = "mul"
    targets: ClassVar[tuple[str, ...]] = ("aten.mul.Tensor", "aten.mul.Scalar")
    operation: ClassVar[str] = "multiply"
    commutes: ClassVar[bool] = True
    also_for: ClassVar[str] = "mask"

    def combine_values(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the real result."""
        return first * second
