"""Product of the elements along a dimension (torch.prod)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, along_batch, example_values
from mase_hw.ops._composite import Composite


class Prod(Composite):
    """Products of halves, each rounded."""

    name = "prod"
    targets = ("aten.prod.dim_int",)

    def problems(self, call: Call) -> list[str]:
        if int(call.attributes["dim"]) % len(call.operands["data_in_0"].shape) == 0:
            return [along_batch("it reduces", "name another dimension")]
        return super().problems(call)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        data, dim = operands["data_in_0"], int(call.attributes["dim"])
        rank, size = len(call.operands["data_in_0"].shape), call.operands["data_in_0"].shape[dim]
        if dim % rank == 0:
            return None
        while size > 1:
            half = size // 2
            first = aten.slice.Tensor(data, dim, 0, half)
            product = aten.mul.Tensor(first, aten.slice.Tensor(data, dim, half, 2 * half))
            rest = [aten.slice.Tensor(data, dim, 2 * half, size)] if size % 2 else []
            data = aten.cat.default([product, *rest], dim) if rest else product
            size -= half
        shape = [-1, *call.result.shape[1:]]
        return [aten.reshape.default(data, shape)]

    def examples(self) -> list[Example]:
        """Over a row; over an odd number of channels."""
        return [
            (Apply(lambda x: (x * 2.0).prod(-1)), (example_values(2, 4),)),
            (Apply(lambda x: (x * 2.0).prod(1, keepdim=True)), (example_values(2, 3, 4),)),
        ]
