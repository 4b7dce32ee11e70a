"""A stream repeated for one of another shape that it meets; inserted by a pass."""

from __future__ import annotations

import torch

from mase_hw.geometry.tensor import Order
from mase_hw.ops._base import Call, Example, example, torch_target
from mase_hw.ops._library import define
from mase_hw.ops.movement.expand import Expand

define("broadcast(Tensor self, SymInt[] size) -> Tensor", torch.Tensor.expand)


class Broadcast(Expand):
    """`expand`, in the order of elements that it was made for."""

    name = "broadcast"
    targets = ("mase.broadcast.default",)
    role = "broadcast"

    def orders(self, call: Call) -> dict[str, Order | None]:
        return {"data_in_0": call.operands["data_in_0"].order, "data_out_0": call.result.order}

    def examples(self) -> list[Example]:
        target = torch_target(self.targets[0])
        return [
            example(lambda x: target(x, [-1, 4, 5]), (2, 1, 5)),
            example(lambda x: target(x, [-1, 3, 5]), (2, 3, 1)),
        ]
