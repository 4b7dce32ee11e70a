"""Product of two tensors, `y = a * b` (torch.mul), exact and rounded once."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from mase_hw.formats.fixed import Fixed
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

    def combine(self, first: Tensor, second: Tensor, formats: tuple[Fixed, Fixed]) -> Tensor:
        """Multiply the codes."""
        return first * second

    def exact(self, first: Fixed, second: Fixed) -> tuple[int, int]:
        """Fractions and widths add; an unsigned operand takes one bit more."""
        width = first.width + second.width + (not first.signed) + (not second.signed)
        return first.frac_width + second.frac_width, width
