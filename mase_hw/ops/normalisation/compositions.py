"""Normalisations that are written with layer or batch normalisation."""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor, nn

from mase_hw._aten import aten
from mase_hw.ops._base import Call, Example, example, example_values
from mase_hw.ops._composite import composition


def _grouped(call: Call, groups: int, data: Tensor, *factors: Tensor) -> Tensor:
    """Return the normalisation of groups of channels, with a weight and a bias for each channel."""
    shape, operands = call.operands["data_in_0"].shape, list(call.operands)[1:]
    size = prod(shape[1:]) // groups
    rows = aten.reshape.default(data, [-1, groups, size])
    rows = aten.layer_norm.default(rows, [size], None, None, float(call.attributes["eps"]))
    result = aten.reshape.default(rows, [-1, *shape[1:]])
    column = [shape[1], *(1 for _ in shape[2:])]
    for name, factor in zip(operands, factors, strict=True):
        if name in ("weight", "bias"):
            combine = aten.mul.Tensor if name == "weight" else aten.add.Tensor
            result = combine(result, aten.reshape.default(factor, column))
    return result


def _group_norms() -> list[Example]:
    norm = nn.GroupNorm(2, 4)
    with torch.no_grad():
        norm.weight.copy_(0.5 + 0.5 * torch.rand_like(norm.weight))
        norm.bias.copy_(example_values(4, seed=2))
    return [
        example(norm, (3, 4, 3)),
        example(nn.GroupNorm(1, 2, affine=False), (3, 2, 2, 2)),
    ]


@composition("aten.group_norm.default", examples=_group_norms)
def group_norm(call: Call, data: Tensor, *factors: Tensor) -> Tensor:
    """Group normalisation (arXiv:1803.08494): layer normalisation of groups of channels."""
    return _grouped(call, int(call.attributes["num_groups"]), data, *factors)


@composition(
    "aten.instance_norm.default",
    examples=lambda: [
        example(nn.InstanceNorm1d(3), (3, 3, 5)),
        example(nn.InstanceNorm1d(3, track_running_stats=True).eval(), (3, 3, 4)),
    ],
)
def instance_norm(call: Call, data: Tensor, *factors: Tensor) -> Tensor:
    """Instance normalisation (arXiv:1607.08022): every channel of every inference by itself.

    With the statistics of the inference a group normalisation of one channel a group, with those of
    training a batch normalisation.
    """
    if call.attributes["use_input_stats"]:
        return _grouped(call, call.operands["data_in_0"].shape[1], data, *factors)
    operands = dict(zip(call.operands, (data, *factors), strict=True))
    names = ("data_in_0", "weight", "bias", "running_mean", "running_var")
    statistics = [operands.get(name) for name in names]
    return aten.batch_norm.default(*statistics, False, 0.0, float(call.attributes["eps"]), False)
