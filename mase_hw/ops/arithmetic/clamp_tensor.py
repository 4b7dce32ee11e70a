"""Bounds that are tensors (torch.clamp)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite


class ClampTensor(Composite):
    """`min(max(x, low), high)`, element by element; each bound may be missing."""

    name = "clamp_tensor"
    targets = (
        "aten.clamp.Tensor",
        "aten.clamp_min.Tensor",
        "aten.clamp_max.Tensor",
    )

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        made = operands["data_in_0"]
        for name, bound in (("min", aten.maximum.default), ("max", aten.minimum.default)):
            if name in operands:
                made = bound(made, operands[name])
        return [made]

    def examples(self) -> list[Example]:
        low, high = -example_values(5).abs(), example_values(5, seed=1).abs()
        return [
            (Apply(torch.clamp, low, high), (example_values(2, 5),)),
            (
                Apply(lambda x, y: torch.clamp(x, max=y)),
                (example_values(2, 5), example_values(2, 5, seed=1)),
            ),
        ]
