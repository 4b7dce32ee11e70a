"""How many constant boundaries a number has passed (torch.bucketize, torch.searchsorted)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite


class Bucketize(Composite):
    """A comparison with every boundary, and their count."""

    name = "bucketize"
    targets = ("aten.bucketize.Tensor", "aten.searchsorted.Tensor")
    operand_names: ClassVar[Mapping[str, str]] = {
        "self": "data_in_0",
        "boundaries": "boundaries",
        "sorted_sequence": "boundaries",
    }

    def problems(self, call: Call) -> list[str]:
        """Refuse boundaries that are computed, and those of each row."""
        return self._refusal(call) or super().problems(call)

    @staticmethod
    def _refusal(call: Call) -> list[str]:
        boundaries = call.constants.get("boundaries")
        if boundaries is None or boundaries.dim() != 1 or call.attributes.get("sorter") is not None:
            return ["its boundaries must be one constant row, in order"]
        return []

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        if self._refusal(call):
            return None
        right = call.attributes.get("right", False) or call.attributes.get("side") == "right"
        passed = aten.ge.Tensor if right else aten.gt.Tensor
        numbers = aten.unsqueeze.default(operands["data_in_0"], -1)
        return [aten.sum.dim_IntList(passed(numbers, call.constants["boundaries"]), [-1])]

    def examples(self) -> list[Example]:
        """Four buckets, either way; the row to search first."""
        bounds = torch.tensor([-0.5, 0.25, 1.0])
        return [
            (Apply(torch.bucketize, bounds), (example_values(2, 5),)),
            (
                Apply(lambda x, b: torch.searchsorted(b, x, right=True), bounds),
                (example_values(2, 5),),
            ),
        ]
