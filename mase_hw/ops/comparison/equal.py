"""Where both are equal, 1, else 0 (torch.eq)."""

from __future__ import annotations

import torch

from mase_hw.ops.comparison._comparison import Comparison


class Equal(Comparison):
    """1 where both are equal."""

    name = "equal"
    targets = ("aten.eq.Tensor", "aten.eq.Scalar")
    operation = "equal"
    relation = torch.eq
