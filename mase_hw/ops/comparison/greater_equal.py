"""Where the first is not less, 1, else 0 (torch.ge)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from mase_hw.ops.comparison._comparison import Comparison


class GreaterEqual(Comparison):
    """1 where the first is not less."""

    name: ClassVar[str] = "greater_equal"
    targets: ClassVar[tuple[str, ...]] = ("aten.ge.Tensor", "aten.ge.Scalar")
    operation: ClassVar[str] = "greater_equal"
    relation: ClassVar[Callable[[Tensor, Tensor], Tensor]] = torch.ge
