"""Smallest element over dimensions (torch.amin): the negative of the largest of negatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite


class Amin(Composite):
    """Of a format whose least code has no negative, that code is one step less."""

    name = "amin"
    targets = ("aten.amin.default", "aten.min.default")

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor]:
        """Negate before and behind."""
        dims, keeps = list(call.attributes["dim"] or ()), bool(call.attributes["keepdim"])
        return [
            aten.neg.default(
                aten.amax.default(aten.neg.default(operands["data_in_0"]), dims, keeps)
            )
        ]

    def examples(self) -> list[Example]:
        """Over lanes, and over rows."""
        return [
            (Apply(lambda x: x.amin(-1)), (example_values(2, 3, 7),)),
            (Apply(lambda x: x.amin(1, keepdim=True)), (example_values(2, 3, 4),)),
        ]
