"""Pooling that is written with other operators.

Largest elements of windows whose places were drawn (torch.nn.FractionalMaxPool2d and 3d).

The samples that say where windows lie are constant: one for every channel, the same for every
inference (arXiv:1412.6071). A pool that draws them at every call is no function of its input.

Maxima back at their places, with zeros between (torch.nn.MaxUnpool1d to 3d).

Windows are those that share the result out: each index is a place in the window of its own element.
An index that is none leaves its window zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import (
    fractional_max_pool2d,
    fractional_max_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    max_unpool1d,
    max_unpool2d,
)

from mase_hw._aten import aten
from mase_hw.geometry.window import Axis
from mase_hw.ops._base import Apply, Call, example, example_values
from mase_hw.ops._composite import composition
from mase_hw.ops._library import define
from mase_hw.ops.convolution._volumes import no_batch
from mase_hw.ops.pooling.windows import indices, largest


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


def _pooled(
    values: Tensor, kernel: list[int], size: list[int], samples: Tensor
) -> tuple[Tensor, Tensor]:
    pool = getattr(aten, f"fractional_max_pool{len(kernel)}d").default
    found: tuple[Tensor, Tensor] = pool(
        values, kernel, size, samples.to(values).expand(len(values), -1, -1)
    )
    return found


def _empty(
    values: Tensor, kernel: list[int], size: list[int], samples: Tensor
) -> tuple[Tensor, Tensor]:
    pooled = values.new_empty((*values.shape[:2], *size))
    return pooled, torch.empty_like(pooled, dtype=torch.int64)


define(
    "fractional_max_pool(Tensor self, int[] kernel_size, int[] output_size, Tensor samples)"
    " -> (Tensor, Tensor)",
    _pooled,
    opaque=True,
    shapes=_empty,
)


def _refuse_samples(call: Call) -> list[str]:
    if "samples" not in call.constants:
        return ["its windows are drawn at every call: give it _random_samples, as a constant"]
    if len(call.constants["samples"]) != 1:
        return ["its windows differ from inference to inference; give samples for one"]
    return []


def _images(x: Tensor, samples: Tensor) -> Any:
    rows = samples.expand(x.shape[0], -1, -1)
    return fractional_max_pool2d(
        x, 2, output_size=(2, 3), _random_samples=rows, return_indices=True
    )


def _volumes(x: Tensor, samples: Tensor) -> Tensor:
    rows = samples.expand(x.shape[0], -1, -1)
    return fractional_max_pool3d(x, 2, output_size=(2, 1, 3), _random_samples=rows)


@composition(
    "aten.fractional_max_pool2d.default",
    "aten.fractional_max_pool3d.default",
    "mase.fractional_max_pool.default",
    examples=lambda: [
        example(Apply(_images, torch.tensor([[[0.3, 0.7], [0.9, 0.1]]])), (2, 2, 5, 7)),
        example(Apply(_volumes, torch.tensor([[[0.3, 0.7, 0.5]]])), (2, 1, 4, 3, 5)),
    ],
    refusal=_refuse_samples,
    operand_names={"self": "data_in_0", "random_samples": "samples", "samples": "samples"},
)
def fractional_max_pool(call: Call, data: Tensor, *random: Tensor) -> list[Tensor]:
    """Largest elements of drawn windows: channels of one sample are pooled together."""
    sizes = call.operands["data_in_0"].shape[2:]
    kernel, positions = call.attributes["kernel_size"], call.attributes["output_size"]
    samples = call.constants["samples"][0].float().tolist()
    values, places = [], []
    for sample, group in groupby(range(len(samples)), lambda channel: samples[channel]):
        channels = list(group)
        # Of an image the first is that of the columns.
        ordered = sample[::-1] if len(sizes) == 2 else sample
        axes = [drawn(*item) for item in zip(ordered, sizes, positions, kernel, strict=True)]
        part = data
        if len(channels) < len(samples):
            part = aten.slice.Tensor(data, 1, channels[0], channels[-1] + 1)
        values.append(largest(part, len(channels), positions, axes))
        places.append(indices(part, len(channels), positions, axes))
    return [
        parts[0] if len(parts) == 1 else aten.cat.default(parts, 1) for parts in (values, places)
    ]


def drawn(sample: float, size: int, positions: int, kernel: int) -> Axis:
    """Return the windows of a sample: the last one reaches the end."""
    starts = [size - kernel]
    if positions > 1:
        step = torch.tensor(size - kernel, dtype=torch.float32) / (positions - 1)
        first = int(torch.tensor(sample) * step)
        near = [int((position + torch.tensor(sample)) * step) for position in range(positions - 1)]
        starts = [*(place - first for place in near), *starts]
    return Axis.of(size, [[start + element for element in range(kernel)] for start in starts])


def _refuse_windows(call: Call) -> list[str]:
    small, large = call.operands["data_in_0"].shape, call.result.shape
    rank = 2 + len(call.attributes["output_size"])
    if len(small) != rank:
        return [no_batch(rank)]
    if any(size < count for size, count in zip(large[2:], small[2:], strict=True)):
        return [f"{list(small[2:])} elements do not fit into {list(large[2:])}"]
    return []


def _signals(x: Tensor) -> Tensor:
    """Signals whose last element is in no window."""
    values, places = max_pool1d(x, 2, return_indices=True)
    return max_unpool1d(values, places, [2], output_size=[5])


@composition(
    "aten.max_unpool2d.default",
    "aten.max_unpool3d.default",
    examples=lambda: [
        example(_signals, (2, 2, 5)),
        example(
            lambda x, i: max_unpool2d(x, i, [2, 2]),
            *max_pool2d(example_values(2, 3, 4, 6), 2, return_indices=True),
        ),
    ],
    refusal=_refuse_windows,
    operand_names={"self": "data_in_0", "indices": "data_in_1"},
)
def max_unpool(call: Call, data: Tensor, index: Tensor) -> Tensor:
    """Elements and indices repeated over their windows; one place of each is the index."""
    small, large = call.operands["data_in_0"].shape, list(call.result.shape[2:])
    steps = [size // count for size, count in zip(large, small[2:], strict=True)]
    reached = [step * count for step, count in zip(steps, small[2:], strict=True)]
    places = torch.arange(prod(large)).reshape(1, 1, *large)
    for dim, size in enumerate(reached, start=2):
        places = places.narrow(dim, 0, size)
    data, indices = (_spread(item, small, steps) for item in (data, index))
    elements = aten.where.ScalarOther(aten.eq.Tensor(indices, places.clone()), data, 0.0)
    behind = [size - count for size, count in zip(large, reached, strict=True)]
    pads = [item for rest in reversed(behind) for item in (0, rest)]
    return aten.constant_pad_nd.default(elements, pads, 0.0) if any(pads) else elements


def _spread(data: Tensor, shape: Sequence[int], steps: Sequence[int]) -> Tensor:
    """Return elements repeated over their windows."""
    channels, *sizes = shape[1:]
    apart = [item for size in sizes for item in (size, 1)]
    whole = [item for size, step in zip(sizes, steps, strict=True) for item in (size, step)]
    data = aten.reshape.default(data, [-1, channels, *apart])
    data = aten.expand.default(data, [-1, channels, *whole])
    reached = [size * step for size, step in zip(sizes, steps, strict=True)]
    spread: Tensor = aten.reshape.default(data, [-1, channels, *reached])
    return spread
