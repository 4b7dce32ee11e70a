"""The smallest of all elements up to each, along a dimension (torch.cummin)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops.reductions._running import Running


class Cummin(Running):
    """The minima; their indices have no hardware."""

    name = "cummin"
    targets = ("aten.cummin.default",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        return self.running(call, operands["data_in_0"], aten.minimum.default)

    def examples(self) -> list[Example]:
        return [
            (Apply(lambda x: torch.cummin(x, -1)[0]), (example_values(2, 5),)),
            (Apply(lambda x: torch.cummin(x, 1)[0]), (example_values(2, 4, 2),)),
        ]
