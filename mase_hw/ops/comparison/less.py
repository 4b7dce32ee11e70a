"""Where the first is less, 1, else 0 (torch.lt)."""

from __future__ import annotations

import torch

from mase_hw.ops.comparison._comparison import Comparison


class Less(Comparison):
    """1 where the first is less."""

    name = "less"
    targets = ("aten.lt.Tensor", "aten.lt.Scalar")
    operation = "less"
    relation = torch.lt
