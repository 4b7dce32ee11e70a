"""The elements of a tensor along a dimension, which goes (torch.unbind)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Call, Example, example
from mase_hw.ops._composite import Composite


class Unbind(Composite):
    """`y_i = x[:, i]`."""

    name = "unbind"
    targets = ("aten.unbind.int",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor]:
        data, dim = operands["data_in_0"], int(call.attributes["dim"])
        return [aten.select.int(data, dim, index) for index in range(len(call.results))]

    def examples(self) -> list[Example]:
        return [example(lambda x: _sum(x.unbind(1)), (2, 3, 4))]


def _sum(rows: Sequence[Tensor]) -> Tensor:
    return rows[0] + rows[1] + rows[2]
