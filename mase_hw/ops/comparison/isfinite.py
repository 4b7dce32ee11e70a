"""Where something is a finite number (torch.isfinite): everywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite


class IsFinite(Composite):
    """Where something is a finite number: everywhere."""

    name = "isfinite"
    targets = ("aten.isfinite.default",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        return [aten.eq.Tensor(operands["data_in_0"], operands["data_in_0"])]

    def examples(self) -> list[Example]:
        return [
            (Apply(lambda x: torch.where(x.isfinite(), x, 0.0)), (example_values(2, 5),)),
        ]
