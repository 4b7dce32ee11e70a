"""Where one but not both hold, 1, else 0 (torch.logical_xor, `^` of masks)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch

from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite
from mase_hw.ops._masks import mask_problems, truths

_aten = torch.ops.aten


class LogicalXor(Composite):
    """Truths that differ."""

    name: ClassVar[str] = "logical_xor"
    targets: ClassVar[tuple[str, ...]] = (
        "aten.logical_xor.default",
        "aten.bitwise_xor.Tensor",
        "aten.__xor__.Tensor",
    )

    def problems(self, call: Call) -> list[str]:
        """Refuse the bits of whole numbers."""
        return mask_problems(call) or super().problems(call)

    def expression(self, call: Call, operands: Mapping[str, Any]) -> Sequence[Any] | None:
        """Return where they differ."""
        if mask_problems(call):
            return None
        first, second = truths(call, operands)
        return [_aten.ne.Tensor(first, second)]

    def examples(self) -> list[Example]:
        """Two masks; a mask and numbers, which hold where they are not zero."""
        values, others = example_values(2, 5), example_values(2, 5, seed=1)
        return [
            (
                Apply(lambda x, y: torch.where(torch.logical_xor(x > 0, y < 0.25), x, 0.0)),
                (values, others),
            ),
            (
                Apply(lambda x, y: torch.where(torch.logical_xor(x > 0, y), x, 0.0)),
                (values, others),
            ),
        ]
