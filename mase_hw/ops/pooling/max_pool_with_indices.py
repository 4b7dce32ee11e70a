"""Largest elements of windows, and where they lie (torch.max_pool2d with return_indices)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import max_pool1d, max_pool2d, max_pool3d

from mase_hw.geometry.window import Axis
from mase_hw.ops._base import Call, example
from mase_hw.ops._composite import composition
from mase_hw.ops.convolution._volumes import no_batch
from mase_hw.ops.pooling.windows import indices


def _refuse_rank(call: Call) -> list[str]:
    rank = 2 + len(call.attributes["kernel_size"])
    return [] if len(call.operands["data_in_0"].shape) == rank else [no_batch(rank)]


@composition(
    "aten.max_pool1d_with_indices.default",
    "aten.max_pool2d_with_indices.default",
    "aten.max_pool3d_with_indices.default",
    examples=lambda: [
        example(lambda x: max_pool1d(x, 2, return_indices=True)[1], (2, 3, 7)),
        example(lambda x: max_pool2d(x, 3, 2, 1, return_indices=True), (2, 3, 5, 4)),
        example(lambda x: max_pool2d(x, 2, 1, 1, 2, return_indices=True)[1], (2, 2, 4, 5)),
        example(lambda x: max_pool3d(x, 2, return_indices=True)[1], (2, 2, 4, 2, 5)),
    ],
    refusal=_refuse_rank,
)
def max_pool_with_indices(call: Call, data: Tensor) -> list[Tensor]:
    """Largest elements of windows and their places (torch.max_pool2d with return_indices)."""
    shapes = call.operands["data_in_0"].shape[2:], call.result.shape[2:]
    count, attributes = len(call.attributes["kernel_size"]), call.attributes
    keys = ("kernel_size", "stride", "padding", "dilation")
    kernel, stride, padding, dilation = (_each(attributes.get(key), count) for key in keys)
    stride = stride or kernel
    padding, dilation = padding or [0] * count, dilation or [1] * count
    axes = [
        Axis.sliding(*item)
        for item in zip(shapes[0], kernel, stride, dilation, padding, shapes[1], strict=True)
    ]
    pool = getattr(torch.ops.aten, f"max_pool{count}d").default
    ceil = bool(attributes.get("ceil_mode", False))
    values = pool(data, kernel, stride, padding, dilation, ceil)
    channels = call.result.shape[1]
    return [values, indices(data, channels, shapes[1], axes)]


def _each(argument: Any, count: int) -> list[int]:
    """Return an argument for each dimension; nothing where it is left out."""
    values = [argument] if isinstance(argument, int) else [int(item) for item in argument or ()]
    return values * count if len(values) == 1 else values
