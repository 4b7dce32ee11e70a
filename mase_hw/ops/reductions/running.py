"""Products and extremes of all elements so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops.reductions._running import Running


class Cumprod(Running):
    """The product of all elements up to each, along a dimension (torch.cumprod), each rounded."""

    name = "cumprod"
    targets = ("aten.cumprod.default",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        return self.running(call, operands["data_in_0"], aten.mul.Tensor)

    def examples(self) -> list[Example]:
        return [(Apply(lambda x: (x * 1.5).cumprod(-1)), (example_values(2, 5),))]


class Cummax(Running):
    """The largest of all elements up to each, along a dimension (torch.cummax)."""

    name = "cummax"
    targets = ("aten.cummax.default",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        return self.running(call, operands["data_in_0"], aten.maximum.default)

    def examples(self) -> list[Example]:
        return [
            (Apply(lambda x: torch.cummax(x, -1)[0]), (example_values(2, 5),)),
            (Apply(lambda x: torch.cummax(x, 1)[0]), (example_values(2, 4, 2),)),
        ]


class Cummin(Running):
    """The smallest of all elements up to each, along a dimension (torch.cummin)."""

    name = "cummin"
    targets = ("aten.cummin.default",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        return self.running(call, operands["data_in_0"], aten.minimum.default)

    def examples(self) -> list[Example]:
        return [
            (Apply(lambda x: torch.cummin(x, -1)[0]), (example_values(2, 5),)),
            (Apply(lambda x: torch.cummin(x, 1)[0]), (example_values(2, 4, 2),)),
        ]
