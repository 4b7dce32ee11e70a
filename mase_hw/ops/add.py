"""Sum of two tensors, `y = a + b` (torch.add), exact and rounded once."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from mase_hw.formats.fixed import Fixed
from mase_hw.ops._binary import Binary
from mase_hw.ops._fixed import align


class Add(Binary):
    """Element-wise sum."""

    name: ClassVar[str] = "add"
    targets: ClassVar[tuple[str, ...]] = ("aten.add.Tensor", "aten.add.Scalar")
    operation: ClassVar[str] = "add"

    def combine_values(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the real result."""
        return first + second

    def combine(self, first: Tensor, second: Tensor, formats: tuple[Fixed, Fixed]) -> Tensor:
        """Align both operands and add."""
        fraction = aligned_fraction(*formats)
        return align(first, formats[0], fraction) + align(second, formats[1], fraction)

    def exact(self, first: Fixed, second: Fixed) -> tuple[int, int]:
        """One bit more than the wider aligned operand."""
        fraction = aligned_fraction(first, second)
        width = max(_aligned_width(first, fraction), _aligned_width(second, fraction)) + 1
        return fraction, width


def aligned_fraction(first: Fixed, second: Fixed) -> int:
    """Return the fraction bits in which both operands are integers."""
    return max(first.frac_width, second.frac_width)


def _aligned_width(operand: Fixed, fraction: int) -> int:
    """Return the bits of an operand at `fraction`, with a sign."""
    return operand.width + fraction - operand.frac_width + (0 if operand.signed else 1)
