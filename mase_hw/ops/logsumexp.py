"""Logarithm of a sum of exponentials over dimensions (torch.logsumexp)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch

from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite

_aten = torch.ops.aten


class LogSumExp(Composite):
    """The largest element is taken off first, and added at the end."""

    name: ClassVar[str] = "logsumexp"
    targets: ClassVar[tuple[str, ...]] = ("aten.logsumexp.default",)

    def expression(self, call: Call, operands: Mapping[str, Any]) -> Sequence[Any] | None:
        """Return the maximum and the logarithm of what the others add."""
        data, dims = operands["data_in_0"], list(call.attributes["dim"])
        largest = _aten.amax.default(data, dims, True)
        powers = _aten.exp.default(_aten.sub.Tensor(data, largest))
        sums = _aten.log.default(_aten.sum.dim_IntList(powers, dims, True))
        made = _aten.add.Tensor(sums, largest)
        keeps = bool(call.attributes["keepdim"])
        return [made if keeps else _aten.reshape.default(made, [-1, *call.result.shape[1:]])]

    def examples(self) -> list[Example]:
        """Over a row, and over channels."""
        return [
            (Apply(lambda x: x.logsumexp(-1)), (example_values(2, 5),)),
            (Apply(lambda x: x.logsumexp(1, keepdim=True)), (example_values(2, 3, 4),)),
        ]
