"""Tensors side by side along a new dimension (torch.stack)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch

from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite


class Stack(Composite):
    """`stack(x_0, x_1, ...) = cat(unsqueeze(x_0), unsqueeze(x_1), ...)`."""

    name: ClassVar[str] = "stack"
    targets: ClassVar[tuple[str, ...]] = ("aten.stack.default",)

    def expression(self, call: Call, operands: Mapping[str, Any]) -> Sequence[Any]:
        """Give every tensor the dimension, then join them."""
        dim = int(call.attributes["dim"])
        parts = [torch.ops.aten.unsqueeze.default(item, dim) for item in operands.values()]
        return [torch.ops.aten.cat.default(parts, dim)]

    def examples(self) -> list[Example]:
        """Three tensors, in front and as lanes."""
        values = (example_values(2, 3), example_values(2, 3, seed=1), example_values(2, 3, seed=2))
        return [
            (Apply(lambda x, y, z: torch.stack([x, y, z], 1)), values),
            (Apply(lambda x, y: torch.stack([x, y], -1)), values[:2]),
        ]
