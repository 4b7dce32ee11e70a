"""Functions that give whole numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._rewriting import Rewritten
from mase_hw.ops.functions._steps import Step


class Round(Step, Rewritten):
    """The nearest whole number, of two the even one (torch.round)."""

    def __init__(self) -> None:
        super().__init__("round", "round round_ aten.round.decimals", "nearest_even")

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Return whole numbers of tenths, hundredths, ..., where decimals are asked for."""
        scale = 10.0 ** int(call.attributes.get("decimals", 0))
        if scale == 1.0:
            return None
        scaled = aten.mul.Tensor(operands["data_in_0"], scale)
        return [aten.mul.Tensor(aten.round.default(scaled), 1.0 / scale)]

    def examples(self) -> list[Example]:
        tenths = Apply(lambda x: torch.round(x, decimals=1))
        return [*super().examples(), (tenths, (example_values(2, 5),))]


STEPS = (
    Step("floor", "floor floor_", "floor"),
    Step("ceil", "ceil ceil_", "floor", negates=True),
    Step("trunc", "trunc trunc_ fix", "toward_zero"),
)
