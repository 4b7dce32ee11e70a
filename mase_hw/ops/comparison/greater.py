"""Where the first is larger, 1, else 0 (torch.gt)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from mase_hw.ops.comparison._comparison import Comparison


class Greater(Comparison):
    """1 where the first is larger."""

    name: ClassVar[str] = "greater"
    targets: ClassVar[tuple[str, ...]] = ("aten.gt.Tensor", "aten.gt.Scalar")
    operation: ClassVar[str] = "greater"
    relation: ClassVar[Callable[[Tensor, Tensor], Tensor]] = torch.gt
