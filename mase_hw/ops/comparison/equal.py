"""Where both are equal, 1, else 0 (torch.eq)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from mase_hw.ops.comparison._comparison import Comparison


class Equal(Comparison):
    """1 where both are equal."""

    name: ClassVar[str] = "equal"
    targets: ClassVar[tuple[str, ...]] = ("aten.eq.Tensor", "aten.eq.Scalar")
    operation: ClassVar[str] = "equal"
    relation: ClassVar[Callable[[Tensor, Tensor], Tensor]] = torch.eq
