"""Whether every element along dimensions holds (torch.all)."""

from __future__ import annotations

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops.comparison._masks import Quantifier


class AllTrue(Quantifier):
    """Whether no element is 0."""

    name = "all"
    targets = ("aten.all.dim", "aten.all.dims")
    function = torch.all

    def reduced(self, data: Tensor, dims: list[int], keeps: bool) -> Tensor:
        """Return whether none is 0."""
        missing = aten.amax.default(aten.eq.Scalar(data, 0), dims, keeps)
        return aten.eq.Scalar(missing, 0)
