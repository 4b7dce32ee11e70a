"""Diagonal of two dimensions, which becomes the last one (torch.diagonal)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Call, Example, along_batch, example
from mase_hw.ops._composite import Composite


class Diagonal(Composite):
    """The two dimensions become one, and of that every so many elements stay."""

    name = "diagonal"
    targets = ("aten.diagonal.default",)

    def problems(self, call: Call) -> list[str]:
        if 0 in _dims(call):
            return [along_batch("it takes", "name dim1 and dim2")]
        return super().problems(call)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        shape = call.operands["data_in_0"].shape
        first, second = _dims(call)
        if 0 in (first, second):
            return None
        offset, rows, columns = int(call.attributes["offset"]), shape[first], shape[second]
        data = operands["data_in_0"]
        others = [dim for dim in range(len(shape)) if dim not in (first, second)]
        if [*others, first, second] != list(range(len(shape))):
            data = aten.permute.default(data, [*others, first, second])
        kept = [shape[dim] for dim in others]
        data = aten.reshape.default(data, [-1, *kept[1:], rows * columns])
        start = offset if offset >= 0 else -offset * columns
        end = start + (call.result.shape[-1] - 1) * (columns + 1) + 1
        return [aten.slice.Tensor(data, len(others), start, end, columns + 1)]

    def examples(self) -> list[Example]:
        """Of rows and columns; beside it; of other dimensions."""
        return [
            example(lambda x: x.diagonal(dim1=1, dim2=2), (2, 3, 4)),
            example(lambda x: x.diagonal(-1, 1, 2), (2, 4, 3)),
            example(lambda x: x.diagonal(1, 3, 1), (2, 3, 2, 4)),
        ]


def _dims(call: Call) -> tuple[int, int]:
    rank = len(call.operands["data_in_0"].shape)
    return int(call.attributes["dim1"]) % rank, int(call.attributes["dim2"]) % rank
