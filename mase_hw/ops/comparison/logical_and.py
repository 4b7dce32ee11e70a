"""Where both hold, 1, else 0 (torch.logical_and, `&` of masks)."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from mase_hw.ops.comparison._masks import MaskPair


class LogicalAnd(MaskPair):
    """The smaller of two truths."""

    name: ClassVar[str] = "logical_and"
    targets: ClassVar[tuple[str, ...]] = (
        "aten.logical_and.default",
        "aten.bitwise_and.Tensor",
        "aten.__and__.Tensor",
    )

    def combined(self, first: Tensor, second: Tensor) -> Any:
        """Return the smaller one."""
        return torch.ops.aten.minimum.default(first, second)
