"""Sum of two tensors, `y = a + b` (torch.add), exact and rounded once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Call
from mase_hw.ops._numbers import Summing
from mase_hw.ops._rewriting import Affine, Commutative, Rewritten
from mase_hw.ops.arithmetic._binary import Binary


class Add(Binary, Commutative, Rewritten, Summing, Affine):
    """Sum of two tensors, `y = a + b`, exact and rounded once."""

    name = "add"
    targets = ("aten.add.Tensor", "aten.add.Scalar")
    homogeneous = True
    operation = "add"
    opposite = "subtract"

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Write a factor of the second operand, `alpha`, as a product, and -1 as the other sign."""
        alpha = call.attributes.get("alpha", 1)
        if alpha == 1:
            return None
        first, second = operands["data_in_0"], operands["data_in_1"]
        if alpha == -1:
            return [_combined(self.opposite, first, second)]
        number = isinstance(second, int | float)
        scaled = second * alpha if number else aten.mul.Tensor(second, alpha)
        return [_combined(self.operation, first, scaled)]

    def affine(self, call: Call) -> tuple[Tensor, Tensor] | None:
        if len(call.constants) != 1 or call.attributes.get("alpha", 1) != 1:
            return None
        (shift,) = call.constants.values()
        return torch.ones(()), shift

    def added(self, call: Call) -> Iterable[tuple[Mapping[str, int], int]]:
        return [(dict.fromkeys(call.operands, 1), 1)]

    def combine_values(self, first: Tensor, second: Tensor) -> Tensor:
        return first + second


def _combined(operation: str, first: Tensor, second: Tensor) -> Tensor:
    """Return a sum or a difference of two tensors, one of which may be a Python number."""
    if operation == "subtract" and isinstance(first, int | float):
        return aten.rsub.Scalar(second, first)
    if operation == "add" and isinstance(first, int | float):
        first, second = second, first
    packet = aten.add if operation == "add" else aten.sub
    target = packet.Scalar if isinstance(second, int | float) else packet.Tensor
    return target(first, second)
