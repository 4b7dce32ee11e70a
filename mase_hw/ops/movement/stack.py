"""Tensors side by side along a new dimension (torch.stack)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values, torch_target
from mase_hw.ops._composite import Composite
from mase_hw.ops._library import define


def _stacked(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Stack tensors, one that is the same for every inference with each of them."""
    count = max(len(tensor) for tensor in tensors)
    return torch.stack([tensor.expand(count, *tensor.shape[1:]) for tensor in tensors], dim)


define("stack(Tensor[] tensors, int dim=0) -> Tensor", _stacked)


class Stack(Composite):
    """`stack(x_0, x_1, ...) = cat(unsqueeze(x_0), unsqueeze(x_1), ...)`."""

    name = "stack"
    targets = ("aten.stack.default", "mase.stack.default")

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor]:
        """Give every tensor the dimension, then join them."""
        dim, rows = (
            int(call.attributes["dim"]),
            max(item.shape[:1] for item in call.operands.values()),
        )
        parts = [
            aten.unsqueeze.default(
                item
                if call.operands[name].shape[:1] == rows
                else aten.expand.default(item, [*rows, *call.operands[name].shape[1:]]),
                dim,
            )
            for name, item in operands.items()
        ]
        return [torch_target("mase.cat.default")(parts, dim)]

    def examples(self) -> list[Example]:
        """Three tensors, in front and as lanes; a constant."""
        values = (example_values(2, 3), example_values(2, 3, seed=1), example_values(2, 3, seed=2))
        return [
            (Apply(lambda x, y, z: torch.stack([x, y, z], 1)), values),
            (Apply(lambda x, y: torch.stack([x, y], -1)), values[:2]),
            (Apply(lambda x: torch.stack([torch.ones_like(x), x], 1)), values[:1]),
        ]
