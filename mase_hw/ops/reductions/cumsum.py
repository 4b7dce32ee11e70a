"""Sums of all elements up to each, along a dimension (torch.cumsum), exact and rounded once.

Those of whole numbers are not rounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, along_batch, example_values
from mase_hw.ops._composite import Composite


class Cumsum(Composite):
    """A linear layer with ones up to the diagonal; of whole numbers a running sum."""

    name = "cumsum"
    targets = ("aten.cumsum.default",)

    def problems(self, call: Call) -> list[str]:
        if self._dim(call) == 0:
            return [along_batch("it sums along", "name another dimension")]
        return super().problems(call)

    @staticmethod
    def _dim(call: Call) -> int:
        return int(call.attributes["dim"]) % max(1, len(call.result.shape))

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Return the sums, between transpositions where the dimension is not the last."""
        dim, last = self._dim(call), len(call.result.shape) - 1
        if dim == 0:
            return None
        data = operands["data_in_0"]
        data = data if dim == last else aten.transpose.int(data, dim, last)
        if _is_real(call):
            size = call.result.shape[dim]
            made = aten.linear.default(data, aten.tril.default(aten.ones.default([size, size])))
        else:
            made = torch.ops.mase.running_sum.default(data)
        return [made if dim == last else aten.transpose.int(made, dim, last)]

    def examples(self) -> list[Example]:
        """Along a row; along another dimension."""
        return [
            (Apply(lambda x: x.cumsum(-1)), (example_values(2, 3, 5),)),
            (Apply(lambda x: x.cumsum(1)), (example_values(2, 4, 2),)),
        ]


def _is_real(call: Call) -> bool:
    specs = (call.operands["data_in_0"], call.result)
    return all(spec.dtype.startswith(("float", "bfloat")) for spec in specs)
