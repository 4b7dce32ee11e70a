"""Difference of two tensors, `y = a - b` (torch.sub), exact and rounded once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import Tensor

from mase_hw.ops._base import Call
from mase_hw.ops.arithmetic.add import Add


class Sub(Add):
    """Difference of two tensors, `y = a - b`, exact and rounded once."""

    name = "sub"
    targets = ("aten.sub.Tensor", "aten.sub.Scalar")
    operation = "subtract"
    opposite = "add"

    def combine_values(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the real result."""
        return first - second

    def added(self, call: Call) -> Iterable[tuple[Mapping[str, int], int]]:
        """One element of the first less one of the second."""
        return [({"data_in_0": 1, "data_in_1": -1}, 1)]
