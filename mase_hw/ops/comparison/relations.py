"""Relations of two numbers: 1 where they hold, else 0."""

from __future__ import annotations

import torch

from mase_hw.ops.comparison._comparison import Comparison

RELATIONS = (
    Comparison("equal", "eq", torch.eq),
    Comparison("not_equal", "ne", torch.ne),
    Comparison("greater", "gt", torch.gt),
    Comparison("greater_equal", "ge", torch.ge),
    Comparison("less", "lt", torch.lt),
    Comparison("less_equal", "le", torch.le),
)
