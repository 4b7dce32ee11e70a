"""The last two dimensions exchanged (`x.mT`, torch.t)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite


class MatrixTranspose(Composite):
    """A transposition; of a vector, nothing."""

    name = "matrix_transpose"
    targets = ("aten.mT.default", "aten.t.default")

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor]:
        data = operands["data_in_0"]
        if len(call.result.shape) < 2:
            return [aten.alias.default(data)]
        return [aten.transpose.int(data, -2, -1)]

    def examples(self) -> list[Example]:
        return [(Apply(lambda x: x.mT), (example_values(2, 4, 5),))]
