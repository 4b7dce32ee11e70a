"""Where both hold, 1, else 0 (torch.logical_and, `&` of masks)."""

from __future__ import annotations

from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops.comparison._masks import MaskPair


class LogicalAnd(MaskPair):
    """The smaller of two truths."""

    name = "logical_and"
    targets = (
        "aten.logical_and.default",
        "aten.bitwise_and.Tensor",
        "aten.__and__.Tensor",
    )

    def combined(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the smaller one."""
        return aten.minimum.default(first, second)
