"""Where one but not both hold, 1, else 0 (torch.logical_xor, `^` of masks)."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from mase_hw.ops.comparison._masks import MaskPair


class LogicalXor(MaskPair):
    """Where one but not both hold, 1, else 0."""

    name: ClassVar[str] = "logical_xor"
    targets: ClassVar[tuple[str, ...]] = (
        "aten.logical_xor.default",
        "aten.bitwise_xor.Tensor",
        "aten.__xor__.Tensor",
    )

    def combined(self, first: Tensor, second: Tensor) -> Any:
        """Return where they differ."""
        return torch.ops.aten.ne.Tensor(first, second)
