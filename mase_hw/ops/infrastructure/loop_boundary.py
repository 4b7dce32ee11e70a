"""The place between two layers, or steps, that run on the same hardware, one after the other."""

from __future__ import annotations

from mase_hw.ops._base import Example, example, torch_target
from mase_hw.ops._library import copied, define
from mase_hw.ops.movement._moves import Wire

define("loop_boundary(Tensor self, int loop=0, int state=0, int number=0) -> Tensor", copied)


class LoopBoundary(Wire):
    """The identity at a boundary of equal layers, which run in rounds on the hardware of one.

    `loop_boundary(x, loop, state, number)` is boundary `number` of a state, which is a tensor that
    a loop carries from layer to layer, or from step to step. All boundaries of a state have one
    number format, so a result enters the next layer unchanged. In hardware the first boundary is
    the entry, from outside or from the end of the layer, and the last one the exit, or the way
    back.
    """

    name = "loop_boundary"
    targets = ("mase.loop_boundary.default",)
    role = "loop_boundary"
    casts = True
    shares_format = True

    def examples(self) -> list[Example]:
        target = torch_target(self.targets[0])
        return [example(lambda x: target(x), (3, 5))]
