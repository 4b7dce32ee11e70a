"""Difference of two tensors, `y = a - b` (torch.sub), exact and rounded once."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from mase_hw.formats.fixed import Fixed
from mase_hw.ops._fixed import align
from mase_hw.ops.add import Add, aligned_fraction


class Sub(Add):
    """Element-wise difference."""

    name: ClassVar[str] = "sub"
    targets: ClassVar[tuple[str, ...]] = ("aten.sub.Tensor", "aten.sub.Scalar")
    operation: ClassVar[str] = "subtract"
    opposite: ClassVar[str] = "add"

    def combine_values(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the real result."""
        return first - second

    def combine(self, first: Tensor, second: Tensor, formats: tuple[Fixed, Fixed]) -> Tensor:
        """Align both operands and subtract."""
        fraction = aligned_fraction(*formats)
        return align(first, formats[0], fraction) - align(second, formats[1], fraction)
