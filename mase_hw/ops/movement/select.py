"""One element along a dimension, which goes (`x[:, index]`)."""

from __future__ import annotations

from mase_hw.ops._base import Call, Example, example
from mase_hw.ops.movement._crop import Crop


class Select(Crop):
    """An index below zero counts from the end."""

    name = "select"
    targets = ("aten.select.int",)
    keeps_dimension = False

    def indices(self, call: Call) -> range:
        index = int(call.attributes["index"]) % call.operands["data_in_0"].shape[self.dim(call)]
        return range(index, index + 1)

    def examples(self) -> list[Example]:
        return [
            example(lambda x: x[:, -1], (2, 3, 5)),
            example(lambda x: x[:, :, 1], (2, 4, 3)),
        ]
