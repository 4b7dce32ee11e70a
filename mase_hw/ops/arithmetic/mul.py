"""Product of two tensors, `y = a * b` (torch.mul), exact and rounded once."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from mase_hw.ops._base import Call
from mase_hw.ops._judging import Judged
from mase_hw.ops._numbers import Multiplying
from mase_hw.ops._rewriting import Affine, Borrowed, Commutative, Foldable
from mase_hw.ops._weighting import Gained
from mase_hw.ops.arithmetic._binary import Binary


class Mul(Binary, Commutative, Borrowed, Foldable, Affine, Multiplying, Judged):
    """Product of two tensors, `y = a * b`, exact and rounded once."""

    row_unit = "factor"
    name = "mul"
    targets = ("aten.mul.Tensor", "aten.mul.Scalar")
    operation = "multiply"
    also_for = "mask"

    def combine_values(self, first: Tensor, second: Tensor) -> Tensor:
        return first * second

    def products(self, call: Call) -> int:
        return 1

    def affine(self, call: Call) -> tuple[Tensor, Tensor] | None:
        if len(call.constants) != 1:
            return None
        (factors,) = call.constants.values()
        return factors, torch.zeros(())

    def fold(self, call: Call, producer: Call) -> Mapping[str, Tensor] | None:
        """Return the weights of a producer that takes a row of factors, and its biases."""
        if len(call.constants) != 1 or not isinstance(producer.operator, Gained):
            return None
        (factors,), size = call.constants.values(), call.result.shape[-1]
        if call.result.shape != producer.result.shape:
            return None
        if tuple(factors.shape)[-1:] != (size,) or factors.numel() != size:
            return None
        row = factors.reshape(size)
        found = (
            {"weight": row * producer.constants["weight"].reshape(-1)}
            if "weight" in producer.constants
            else {"weight": row}
        )
        if "bias" in producer.constants:
            found["bias"] = row * producer.constants["bias"].reshape(-1)
        return found
