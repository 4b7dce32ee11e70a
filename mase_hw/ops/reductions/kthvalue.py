"""The k-th smallest element of short rows, and its index (torch.kthvalue)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops.reductions._ranks import Ranked, at_places, reduced_shape


class KthValue(Ranked):
    """One place of the order."""

    name = "kthvalue"
    targets = ("aten.kthvalue.default",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Return the element and its index."""
        place = int(call.attributes["k"]) - 1
        return reduced_shape(call, at_places(call, operands["data_in_0"], [place]))

    def examples(self) -> list[Example]:
        """The second of a row."""
        return [(Apply(lambda x: torch.kthvalue(x, 2)[0]), (example_values(2, 2, 5),))]
