"""Logarithm of the sum of exponentials (torch.logsumexp): `y = m + log(sum exp(x - m))`.

`m` is the largest element. The difference, the logarithm and the sum are rounded each: see
`log_sum` for what lies between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite


class LogSumExp(Composite):
    """`y = log(sum exp(x))` over dimensions."""

    name = "logsumexp"
    targets = ("aten.logsumexp.default",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Return a sum, in the result's shape."""
        found = log_of_exponentials(operands["data_in_0"], list(call.attributes["dim"]))
        kept = call.attributes.get("keepdim", False)
        return [found if kept else aten.reshape.default(found, [-1, *call.result.shape[1:]])]

    def examples(self) -> list[Example]:
        return [
            (Apply(lambda x: torch.logsumexp(x, -1)), (example_values(3, 2, 7),)),
            (Apply(lambda x: torch.logsumexp(x, 1, keepdim=True)), (example_values(3, 5, 2),)),
        ]


def log_of_exponentials(data: Tensor, dims: list[int]) -> Tensor:
    """`log(sum exp(x))`, the dimensions kept with one element."""
    largest = aten.amax.default(data, dims, True)
    rest = aten.sub.Tensor(data, largest)
    return aten.add.Tensor(largest, torch.ops.mase.log_sum.default(rest, dims, True))
