"""The larger and the smaller of two numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from mase_hw.formats import FIXED_POINT
from mase_hw.ops._base import Example
from mase_hw.ops._numbers import Selecting
from mase_hw.ops._rewriting import Commutative
from mase_hw.ops.arithmetic._binary import Binary


class Maximum(Binary, Selecting, Commutative):
    """The larger of two tensors, element by element (torch.maximum), rounded once."""

    name = "maximum"
    targets = (
        "aten.maximum.default",
        "aten.max.other",
    )
    families = FIXED_POINT
    homogeneous = True
    operation = "maximum"

    def combine_values(self, first: Tensor, second: Tensor) -> Tensor:
        return torch.maximum(first, second)

    def examples(self) -> list[Example]:
        return super().examples()[:-1]


class Minimum(Binary, Selecting, Commutative):
    """The smaller of two tensors, element by element (torch.minimum), rounded once."""

    name = "minimum"
    targets = (
        "aten.minimum.default",
        "aten.fmin.default",
        "aten.min.other",
    )
    families = FIXED_POINT
    homogeneous = True
    operation = "minimum"

    def combine_values(self, first: Tensor, second: Tensor) -> Tensor:
        return torch.minimum(first, second)

    def examples(self) -> list[Example]:
        return super().examples()[:-1]
