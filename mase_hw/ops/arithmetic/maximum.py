"""The larger of two tensors, element by element (torch.maximum), rounded once."""

from __future__ import annotations

import torch
from torch import Tensor

from mase_hw.formats import FIXED_POINT
from mase_hw.ops._base import Example
from mase_hw.ops._numbers import Selecting
from mase_hw.ops._rewriting import Commutative
from mase_hw.ops.arithmetic._binary import Binary


class Maximum(Binary, Selecting, Commutative):
    """The larger of two tensors, element by element, rounded once."""

    name = "maximum"
    targets = (
        "aten.maximum.default",
        "aten.max.other",
    )
    families = FIXED_POINT
    homogeneous = True
    operation = "maximum"

    def combine_values(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the real result."""
        return torch.maximum(first, second)

    def examples(self) -> list[Example]:
        """Two streams, equal or not, and constants; torch takes no Python number."""
        return super().examples()[:-1]
