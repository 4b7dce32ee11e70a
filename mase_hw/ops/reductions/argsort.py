"""The indices that put short rows in their order (torch.argsort)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops.reductions._ranks import Ranked, at_places, dimension


class Argsort(Ranked):
    """The indices of a sort."""

    name = "argsort"
    targets = ("aten.argsort.default", "aten.argsort.stable")

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Return the indices of all places of the order."""
        size = call.result.shape[dimension(call)]
        descending = bool(call.attributes.get("descending", False))
        found = at_places(call, operands["data_in_0"], range(size), descending=descending)
        return None if found is None else found[1:]

    def examples(self) -> list[Example]:
        return [(Apply(lambda x: torch.argsort(x, descending=True)), (example_values(2, 5),))]
