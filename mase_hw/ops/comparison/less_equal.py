"""Where the first is not larger, 1, else 0 (torch.le)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from mase_hw.ops.comparison._comparison import Comparison


class LessEqual(Comparison):
    """1 where the first is not larger."""

    name: ClassVar[str] = "less_equal"
    targets: ClassVar[tuple[str, ...]] = ("aten.le.Tensor", "aten.le.Scalar")
    operation: ClassVar[str] = "less_equal"
    relation: ClassVar[Callable[[Tensor, Tensor], Tensor]] = torch.le
