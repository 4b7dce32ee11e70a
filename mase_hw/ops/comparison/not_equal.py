"""Where both differ, 1, else 0 (torch.ne)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from mase_hw.ops.comparison._comparison import Comparison


class NotEqual(Comparison):
    """1 where both differ."""

    name: ClassVar[str] = "not_equal"
    targets: ClassVar[tuple[str, ...]] = ("aten.ne.Tensor", "aten.ne.Scalar")
    operation: ClassVar[str] = "not_equal"
    relation: ClassVar[Callable[[Tensor, Tensor], Tensor]] = torch.ne
