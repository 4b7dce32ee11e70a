"""Whether some or all elements of a row are not zero."""

from __future__ import annotations

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops.comparison._masks import Quantifier


class AnyTrue(Quantifier):
    """Whether one element along dimensions holds (torch.any)."""

    name = "any"
    targets = ("aten.any.dim", "aten.any.dims")
    function = torch.any

    def reduced(self, data: Tensor, dims: list[int], keeps: bool) -> Tensor:
        return aten.amax.default(data, dims, keeps)


class AllTrue(Quantifier):
    """Whether every element along dimensions holds (torch.all)."""

    name = "all"
    targets = ("aten.all.dim", "aten.all.dims")
    function = torch.all

    def reduced(self, data: Tensor, dims: list[int], keeps: bool) -> Tensor:
        missing = aten.amax.default(aten.eq.Scalar(data, 0), dims, keeps)
        return aten.eq.Scalar(missing, 0)
