"""Gated linear unit: one half of a tensor, times the sigmoid of the other (arXiv:1612.08083)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from mase_hw._aten import aten
from mase_hw.ops._base import Call, Example, example_values
from mase_hw.ops._composite import Composite


class GLU(Composite):
    """`y = a * sigmoid(b)` for the halves along a dimension."""

    name = "glu"
    targets = ("aten.glu.default",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor]:
        data, dim = operands["data_in_0"], int(call.attributes["dim"])
        size = call.operands["data_in_0"].shape[dim] // 2
        first = aten.slice.Tensor(data, dim, 0, size)
        second = aten.slice.Tensor(data, dim, size, 2 * size)
        return [aten.mul.Tensor(first, aten.sigmoid.default(second))]

    def examples(self) -> list[Example]:
        """Halves of a row, and of channels."""
        return [
            (nn.GLU(), (example_values(2, 3, 6),)),
            (nn.GLU(1), (example_values(2, 4, 3),)),
        ]
