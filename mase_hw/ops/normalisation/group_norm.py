"""Group normalisation (arXiv:1803.08494): layer normalisation of groups of channels.

It is written as a normalisation of each group as one row, and a weight and a bias for each channel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from mase_hw._aten import aten
from mase_hw.ops._base import Call, Example, example, example_values
from mase_hw.ops._composite import Composite


class GroupNorm(Composite):
    """Elements of groups of channels over their standard deviation, around their mean."""

    name = "group_norm"
    targets = ("aten.group_norm.default",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Return a layer normalisation, products and sums."""
        groups = int(call.attributes["num_groups"])
        return [grouped(call, operands, groups, float(call.attributes["eps"]))]

    def examples(self) -> list[Example]:
        """Two groups of two channels, with weights, and one group without."""
        norm = nn.GroupNorm(2, 4)
        with torch.no_grad():
            norm.weight.copy_(0.5 + 0.5 * torch.rand_like(norm.weight))
            norm.bias.copy_(example_values(4, seed=2))
        return [
            (norm, (example_values(3, 4, 3),)),
            example(nn.GroupNorm(1, 2, affine=False), (3, 2, 2, 2)),
        ]


def grouped(call: Call, operands: Mapping[str, Tensor], groups: int, epsilon: float) -> Any:
    """Return the normalisation of groups of channels, written with others.

    Args:
        call: a call with weights and biases or without.
        operands: what stands for its operands.
        groups: the number of groups.
        epsilon: what is added to the variance.
    """
    shape = call.operands["data_in_0"].shape
    size = prod(shape[1:]) // groups
    rows = aten.reshape.default(operands["data_in_0"], [-1, groups, size])
    result = aten.layer_norm.default(rows, [size], None, None, epsilon)
    result = aten.reshape.default(result, [-1, *shape[1:]])
    column = [shape[1], *(1 for _ in shape[2:])]
    for name, combine in (("weight", aten.mul.Tensor), ("bias", aten.add.Tensor)):
        if operands.get(name) is not None:
            result = combine(result, aten.reshape.default(operands[name], column))
    return result
