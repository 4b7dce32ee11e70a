"""The part of a sequence that one of several alike steps takes (`x[:, index]`)."""

from __future__ import annotations

from torch import Tensor

from mase_hw.geometry.tensor import Order
from mase_hw.ops._base import Call, Example, example, torch_target
from mase_hw.ops._library import define
from mase_hw.ops.movement.crops import Select


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
