"""Where one or both hold, 1, else 0 (torch.logical_or, `|` of masks)."""

from __future__ import annotations

from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops.comparison._masks import MaskPair


class LogicalOr(MaskPair):
    """The larger of two truths."""

    name = "logical_or"
    targets = (
        "aten.logical_or.default",
        "aten.bitwise_or.Tensor",
        "aten.__or__.Tensor",
    )

    def combined(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the larger one."""
        return aten.maximum.default(first, second)
