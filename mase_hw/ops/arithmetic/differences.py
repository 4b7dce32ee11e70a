"""Differences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import Tensor

from mase_hw.ops._base import Call
from mase_hw.ops._judging import Judged
from mase_hw.ops.arithmetic.add import Add


class Sub(Add, Judged):
    """Difference of two tensors, `y = a - b` (torch.sub), exact and rounded once."""

    row_unit = "offset"
    name = "sub"
    targets = ("aten.sub.Tensor", "aten.sub.Scalar")
    operation = "subtract"
    opposite = "add"

    def combine_values(self, first: Tensor, second: Tensor) -> Tensor:
        return first - second

    def added(self, call: Call) -> Iterable[tuple[Mapping[str, int], int]]:
        """One element of the first less one of the second."""
        return [({"data_in_0": 1, "data_in_1": -1}, 1)]


class ReverseSub(Sub):
    """Difference with the operands exchanged, `y = b - a` (torch.rsub), as in `1 - x`."""

    name = "rsub"
    targets = ("aten.rsub.Tensor", "aten.rsub.Scalar")
    operand_names: Mapping[str, str] = {"self": "data_in_1", "other": "data_in_0"}
