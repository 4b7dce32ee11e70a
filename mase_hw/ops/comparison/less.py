"""Where the first is less, 1, else 0 (torch.lt)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from mase_hw.ops.comparison._comparison import Comparison


class Less(Comparison):
    """1 where the first is less."""

    name: ClassVar[str] = "less"
    targets: ClassVar[tuple[str, ...]] = ("aten.lt.Tensor", "aten.lt.Scalar")
    operation: ClassVar[str] = "less"
    relation: ClassVar[Callable[[Tensor, Tensor], Tensor]] = torch.lt
