"""Where the first is larger, 1, else 0 (torch.gt)."""

from __future__ import annotations

import torch

from mase_hw.ops.comparison._comparison import Comparison


class Greater(Comparison):
    """1 where the first is larger."""

    name = "greater"
    targets = ("aten.gt.Tensor", "aten.gt.Scalar")
    operation = "greater"
    relation = torch.gt
