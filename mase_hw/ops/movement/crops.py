"""Parts of a dimension, such as the step that one of several alike steps takes (`x[:, index]`)."""

from __future__ import annotations

from torch import Tensor

from mase_hw.geometry.tensor import Order
from mase_hw.ops._base import Call, Example, example, torch_target
from mase_hw.ops._library import define
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


def _taken(values: Tensor, index: int) -> Tensor:
    return values.select(1, index).clone()


define("take(Tensor self, int index) -> Tensor", _taken)


class Take(Select):
    """Step `index` of the steps along dimension 1.

    All steps of a sequence are in one number format. Where steps run on the same hardware it is a
    wire, because their parts follow each other in the stream.
    """

    name = "take"
    targets = ("mase.take.default",)
    role = "take"

    def dim(self, call: Call) -> int:
        return 1

    def limits(self, call: Call) -> dict[tuple[str, int], int]:
        return {("data_in_0", 1): 1, ("data_out_0", 1): 1}

    def ties(self, call: Call) -> list[list[tuple[str, int]]]:
        return [[("data_in_0", 0), ("data_out_0", 0)]]

    def orders(self, call: Call) -> dict[str, Order | None]:
        return {"data_in_0": None, "data_out_0": None}

    def examples(self) -> list[Example]:
        target = torch_target(self.targets[0])
        return [example(lambda x: target(x, 1), (2, 3, 5))]
