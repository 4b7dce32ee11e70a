"""Where both differ, 1, else 0 (torch.ne)."""

from __future__ import annotations

import torch

from mase_hw.ops.comparison._comparison import Comparison


class NotEqual(Comparison):
    """1 where both differ."""

    name = "not_equal"
    targets = ("aten.ne.Tensor", "aten.ne.Scalar")
    operation = "not_equal"
    relation = torch.ne
