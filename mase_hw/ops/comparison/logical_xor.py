"""Where one but not both hold, 1, else 0 (torch.logical_xor, `^` of masks)."""

from __future__ import annotations

from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops.comparison._masks import MaskPair


class LogicalXor(MaskPair):
    """Where one but not both hold, 1, else 0."""

    name = "logical_xor"
    targets = (
        "aten.logical_xor.default",
        "aten.bitwise_xor.Tensor",
        "aten.__xor__.Tensor",
    )

    def combined(self, first: Tensor, second: Tensor) -> Tensor:
        """Return where they differ."""
        return aten.ne.Tensor(first, second)
