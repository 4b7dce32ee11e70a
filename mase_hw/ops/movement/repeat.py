"""Copies of a tensor one after another along its dimensions (torch.Tensor.repeat, torch.tile)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Call, Example, example
from mase_hw.ops._composite import Composite


class Repeat(Composite):
    """A dimension of size `s` repeated `r` times is `[s]` expanded to `[r, s]` and joined."""

    name = "repeat"
    targets = ("aten.repeat.default", "aten.tile.default")

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor]:
        """Expand one dimension after another, the innermost first."""
        data, shape = operands["data_in_0"], call.operands["data_in_0"].shape
        repeats = [int(n) for n in call.attributes.get("repeats", call.attributes.get("dims"))]
        rank = len(call.result.shape)
        repeats = [1] * (rank - len(repeats)) + repeats
        kept = [1] * (rank - len(shape)) + list(shape)
        if len(shape) < rank:
            data = aten.view.default(data, kept)
        for dim in reversed(range(rank)):
            if repeats[dim] > 1:
                sizes = [-1] * (rank + 1)
                sizes[dim] = repeats[dim]
                kept[dim] *= repeats[dim]
                data = aten.unsqueeze.default(data, dim)
                data = aten.expand.default(data, sizes)
                data = aten.reshape.default(data, [-1, *kept[1:]])
        return [data if data is not operands["data_in_0"] else aten.alias.default(data)]

    def examples(self) -> list[Example]:
        return [
            example(lambda x: x.repeat(1, 2, 1), (2, 2, 3)),
            example(lambda x: x.repeat(1, 3), (2, 3)),
        ]
