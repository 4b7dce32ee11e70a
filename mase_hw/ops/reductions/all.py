"""Whether every element along dimensions holds (torch.all)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

from mase_hw.ops.comparison._masks import Quantifier

_aten = torch.ops.aten


class AllTrue(Quantifier):
    """Whether no element is 0."""

    name: ClassVar[str] = "all"
    targets: ClassVar[tuple[str, ...]] = ("aten.all.dim", "aten.all.dims")
    function: ClassVar[Callable[..., Any]] = torch.all

    def reduced(self, data: Tensor, dims: list[int], keeps: bool) -> Any:
        """Return whether none is 0."""
        missing = _aten.amax.default(_aten.eq.Scalar(data, 0), dims, keeps)
        return _aten.eq.Scalar(missing, 0)
