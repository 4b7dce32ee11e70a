"""Parts of a dimension."""

from __future__ import annotations

from mase_hw.ops._base import Call, Example, example
from mase_hw.ops._rewriting import Removable
from mase_hw.ops.movement._crop import Crop


class Select(Crop):
    """One element along a dimension, which goes: `x[:, index]`, from the end below zero."""

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


class Slice(Crop, Removable):
    """Some of the elements along a dimension (`x[:, start:end:step]`), clamped as Python does."""

    name = "slice"
    targets = ("aten.slice.Tensor", "aten.narrow.default")

    def indices(self, call: Call) -> range:
        attributes, size = call.attributes, call.operands["data_in_0"].shape[self.dim(call)]
        if "length" in attributes:
            start = int(attributes["start"]) % size
            return range(start, start + int(attributes["length"]))
        return range(
            *slice(attributes["start"], attributes["end"], attributes["step"]).indices(size)
        )

    def is_identity(self, call: Call) -> bool:
        return call.operands["data_in_0"].shape == call.result.shape

    def examples(self) -> list[Example]:
        return [
            example(lambda x: x[:, :4], (2, 7)),
            example(lambda x: x[:, 1::2], (2, 5, 3)),
            example(lambda x: x[:, :, 1:3], (2, 3, 5)),
        ]
