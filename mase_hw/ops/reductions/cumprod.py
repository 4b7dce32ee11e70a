"""The product of all elements up to each, along a dimension (torch.cumprod), each rounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops.reductions._running import Running


class Cumprod(Running):
    """Products of products of neighbours."""

    name = "cumprod"
    targets = ("aten.cumprod.default",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        return self.running(call, operands["data_in_0"], aten.mul.Tensor)

    def examples(self) -> list[Example]:
        return [(Apply(lambda x: (x * 1.5).cumprod(-1)), (example_values(2, 5),))]
