"""Windows along a dimension (torch.Tensor.unfold): their elements become the last dimension."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Call, Example, along_batch, example
from mase_hw.ops._composite import Composite


class Sliding(Composite):
    """`y[..., i, ..., k] = x[..., i step + k, ...]`, windows of `size`, every `step` elements."""

    name = "sliding"
    targets = ("aten.unfold.default",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Cut what does not overlap; else put a slice for each element side by side."""
        shape, result = call.operands["data_in_0"].shape, call.result.shape
        dim = int(call.attributes["dimension"]) % len(shape)
        if dim == 0:
            return None
        size, step = int(call.attributes["size"]), int(call.attributes["step"])
        data, count = operands["data_in_0"], result[dim]
        if size == step:
            if count * size < shape[dim]:
                data = aten.slice.Tensor(data, dim, 0, count * size)
            apart = [-1, *shape[1:dim], count, size, *shape[dim + 1 :]]
            axes = [*range(dim + 1), *range(dim + 2, len(shape) + 1), dim + 1]
            return [aten.permute.default(aten.reshape.default(data, apart), axes)]
        last = (count - 1) * step + 1
        parts = [aten.slice.Tensor(data, dim, k, k + last, step) for k in range(size)]
        return [aten.stack.default(parts, -1)]

    def problems(self, call: Call) -> list[str]:
        if int(call.attributes["dimension"]) % len(call.operands["data_in_0"].shape) == 0:
            return [along_batch("its windows lie along", "name another dimension")]
        return super().problems(call)

    def examples(self) -> list[Example]:
        """Side by side, with a rest; overlapping; apart."""
        return [
            example(lambda x: x.unfold(1, 2, 2), (2, 7, 3)),
            example(lambda x: x.unfold(-1, 3, 2), (2, 2, 7)),
            example(lambda x: x.unfold(-1, 2, 3), (2, 2, 8)),
        ]
