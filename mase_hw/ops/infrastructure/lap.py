"""The place between two layers, or steps, that run on the same hardware, one after the other."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from mase_hw.ops._base import Apply, Example, example_values, torch_target
from mase_hw.ops._library import define_numbered
from mase_hw.ops.movement._moves import Wire


def _copied(values: Tensor, loop: int = 0, state: int = 0, number: int = 0) -> Tensor:
    return values.clone()


define_numbered("lap", "Tensor self, int loop=0, int state=0, int number=0", _copied)


class Lap(Wire):
    """The identity; before the first, between and behind the last of layers that are alike.

    `lap(x, loop, state, number)`: the place number `number` of one of the tensors that go from
    layer to layer of a loop, or from step to step. All of a state are in one number format, so
    that what leaves a layer enters the next one as it is. In hardware there is one layer. The
    first lap becomes the place where a state enters it, from before or from its end, and the last
    one the place where it leaves it or goes back.
    """

    name: ClassVar[str] = "lap"
    targets: ClassVar[tuple[str, ...]] = ("mase.lap.default",)
    role: ClassVar[str | None] = "lap"
    casts: ClassVar[bool] = True
    shares_format: ClassVar[bool] = True

    def examples(self) -> list[Example]:
        """One alone, which is a wire."""
        target = torch_target(self.targets[0])
        return [(Apply(lambda x: target(x)), (example_values(3, 5),))]
