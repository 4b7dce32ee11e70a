"""Where the first is not less, 1, else 0 (torch.ge)."""

from __future__ import annotations

import torch

from mase_hw.ops.comparison._comparison import Comparison


class GreaterEqual(Comparison):
    """1 where the first is not less."""

    name = "greater_equal"
    targets = ("aten.ge.Tensor", "aten.ge.Scalar")
    operation = "greater_equal"
    relation = torch.ge
