"""Rows turned round."""

from __future__ import annotations

from torch import Tensor

from mase_hw.ops._base import Call, Example, example
from mase_hw.ops.movement._layout import Layout


class Flip(Layout):
    """Elements in reverse order along dimensions (torch.flip)."""

    name = "flip"
    targets = ("aten.flip.default",)

    def problems(self, call: Call) -> list[str]:
        return super().problems(call) + self.batch_problems(call)

    def move(self, call: Call, tensor: Tensor) -> Tensor:
        return tensor.flip([int(dim) for dim in call.attributes["dims"]])

    def examples(self) -> list[Example]:
        return [
            example(lambda x: x.flip(-1), (2, 3, 5)),
            example(lambda x: x.flip([1, 3]), (2, 3, 2, 4)),
        ]


class Roll(Layout):
    """Elements moved along dimensions, those at the end to the front (torch.roll)."""

    name = "roll"
    targets = ("aten.roll.default",)

    def problems(self, call: Call) -> list[str]:
        return super().problems(call) + self.batch_problems(call)

    def move(self, call: Call, tensor: Tensor) -> Tensor:
        return tensor.roll(call.attributes["shifts"], [int(dim) for dim in call.attributes["dims"]])

    def examples(self) -> list[Example]:
        return [
            example(lambda x: x.roll(2, -1), (2, 3, 5)),
            example(lambda x: x.roll((1, -1), (1, 2)), (2, 3, 4, 2)),
        ]
