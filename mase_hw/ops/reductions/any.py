"""Whether one element along dimensions holds (torch.any)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops.comparison._masks import Quantifier


class AnyTrue(Quantifier):
    """Whether one element along dimensions holds."""

    name: ClassVar[str] = "any"
    targets: ClassVar[tuple[str, ...]] = ("aten.any.dim", "aten.any.dims")
    function: ClassVar[Callable[..., Tensor]] = torch.any

    def reduced(self, data: Tensor, dims: list[int], keeps: bool) -> Tensor:
        return aten.amax.default(data, dims, keeps)
