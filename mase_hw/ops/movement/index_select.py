"""Elements at constant indices along a dimension (torch.index_select)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw.ops._base import Apply, Call, Example, along_batch, example
from mase_hw.ops._composite import Composite
from mase_hw.ops.movement._indices import picked


class IndexSelect(Composite):
    """Runs of indices at equal distances are slices, side by side."""

    name = "index_select"
    targets = ("aten.index_select.default",)

    def problems(self, call: Call) -> list[str]:
        """Refuse indices that are computed, and to select inferences."""
        if "index" not in call.constants:
            return ["its indices are computed; only constant ones select elements of a stream"]
        if self._dim(call) == 0:
            return [along_batch("it selects along", "name another dimension")]
        return super().problems(call)

    @staticmethod
    def _dim(call: Call) -> int:
        return int(call.attributes["dim"]) % max(1, len(call.operands["data_in_0"].shape))

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        index = call.constants.get("index")
        dim = self._dim(call)
        if index is None or dim == 0:
            return None
        return [picked(operands["data_in_0"], dim, [int(item) for item in index.flatten()])]

    def examples(self) -> list[Example]:
        """A few columns; channels in another order."""
        return [
            example(
                Apply(lambda x, index: x.index_select(-1, index), torch.tensor([0, 2, 4, 1])),
                (2, 5),
            ),
            example(
                Apply(lambda x, index: x.index_select(1, index), torch.tensor([2, 1, 0, 2])),
                (2, 3, 4),
            ),
        ]
