"""Where something is less than zero (torch.signbit)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite


class Signbit(Composite):
    """A comparison with zero, which has no sign."""

    name = "signbit"
    targets = ("aten.signbit.default",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        return [aten.lt.Scalar(operands["data_in_0"], 0.0)]

    def examples(self) -> list[Example]:
        return [(Apply(lambda x: torch.where(torch.signbit(x), 0.5, x)), (example_values(2, 5),))]
