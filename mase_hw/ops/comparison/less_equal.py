"""Where the first is not larger, 1, else 0 (torch.le)."""

from __future__ import annotations

import torch

from mase_hw.ops.comparison._comparison import Comparison


class LessEqual(Comparison):
    """1 where the first is not larger."""

    name = "less_equal"
    targets = ("aten.le.Tensor", "aten.le.Scalar")
    operation = "less_equal"
    relation = torch.le
