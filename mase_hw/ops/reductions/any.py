"""Whether one element along dimensions holds (torch.any)."""

from __future__ import annotations

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops.comparison._masks import Quantifier


class AnyTrue(Quantifier):
    """Whether one element along dimensions holds."""

    name = "any"
    targets = ("aten.any.dim", "aten.any.dims")
    function = torch.any

    def reduced(self, data: Tensor, dims: list[int], keeps: bool) -> Tensor:
        return aten.amax.default(data, dims, keeps)
