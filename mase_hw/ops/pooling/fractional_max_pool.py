"""Largest elements of windows whose places were drawn (torch.nn.FractionalMaxPool2d and 3d).

The samples that say where windows lie are constant: one for every channel, the same for every
inference (arXiv:1412.6071). A pool that draws them at every call is no function of its input.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import fractional_max_pool2d, fractional_max_pool3d

from mase_hw._aten import aten
from mase_hw.geometry.window import Axis
from mase_hw.ops._base import Apply, Call, example
from mase_hw.ops._composite import composition
from mase_hw.ops._library import define
from mase_hw.ops.pooling.windows import indices, largest


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
