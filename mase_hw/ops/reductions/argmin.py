"""Index of the smallest element along a dimension (torch.argmin): where the negative is largest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite


class Argmin(Composite):
    """The first of equals."""

    name = "argmin"
    targets = ("aten.argmin.default",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor]:
        negative = aten.neg.default(operands["data_in_0"])
        given = call.attributes
        return [aten.argmax.default(negative, given["dim"], given["keepdim"])]

    def examples(self) -> list[Example]:
        return [(Apply(lambda x: x.argmin(1)), (example_values(2, 10),))]
