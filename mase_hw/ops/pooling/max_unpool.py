"""Maxima back at their places, with zeros between (torch.nn.MaxUnpool1d to 3d).

Windows are those that share the result out: each index is a place in the window of its own element.
An index that is none leaves its window zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor
from torch.nn.functional import max_pool1d, max_pool2d, max_unpool1d, max_unpool2d

from mase_hw._aten import aten
from mase_hw.ops._base import Call, example, example_values
from mase_hw.ops._composite import composition
from mase_hw.ops.convolution._volumes import no_batch


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
