"""Logarithm of the sum of two exponentials (torch.logaddexp)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite


class LogAddExp(Composite):
    """`max(a, b) + log(1 + exp(-|a - b|))`."""

    name = "logaddexp"
    targets = ("aten.logaddexp.default",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Return the larger one and what the other adds."""
        first, second = operands["data_in_0"], operands["data_in_1"]
        apart = aten.abs.default(aten.sub.Tensor(first, second))
        rest = aten.softplus.default(aten.neg.default(apart))
        return [aten.add.Tensor(aten.maximum.default(first, second), rest)]

    def examples(self) -> list[Example]:
        return [(Apply(torch.logaddexp), (example_values(2, 5), example_values(2, 5, seed=1)))]
