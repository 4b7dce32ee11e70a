"""Windows of tensors as columns, and back."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mase_hw._aten import aten
from mase_hw.geometry.window import pair
from mase_hw.ops._base import Call, example
from mase_hw.ops._composite import Refusal, composition, refuse_batch
from mase_hw.ops.convolution._volumes import no_batch


def _refuse_rank(rank: int) -> Refusal:
    def refusal(call: Call) -> list[str]:
        return [] if len(call.operands["data_in_0"].shape) == rank else [no_batch(rank)]

    return refusal


@composition(
    "aten.col2im.default",
    examples=lambda: [
        example(nn.Fold((4, 5), (2, 3), padding=(1, 0)), (2, 12, 15)),
        example(nn.Fold((5, 4), 2, stride=2), (2, 4, 4)),
    ],
    refusal=_refuse_rank(3),
)
def fold(call: Call, data: Tensor) -> Tensor:
    """Columns put back in their windows (torch.nn.Fold): what overlaps is added.

    `y[c, place(q, i)] += x[c k + i, q]`: a transposed convolution of the columns as an image, with
    one weight a window.
    """
    shape, attributes = call.operands["data_in_0"].shape, call.attributes
    kernel, stride, dilation, padding = (
        pair(attributes[key], 2, 0) for key in ("kernel_size", "stride", "dilation", "padding")
    )
    sizes = [int(size) for size in attributes["output_size"]]
    reached = [step * (count - 1) + 1 for step, count in zip(dilation, kernel, strict=True)]
    places = [
        (size + 2 * around - reach) // step + 1
        for size, around, reach, step in zip(sizes, padding, reached, stride, strict=True)
    ]
    beyond = [
        size + 2 * around - reach - (count - 1) * step
        for size, around, reach, count, step in zip(
            sizes, padding, reached, places, stride, strict=True
        )
    ]
    image = aten.reshape.default(data, [-1, shape[1], *places])
    groups = shape[1] // (kernel[0] * kernel[1])
    # What no window reaches stays zero.
    return aten.conv_transpose2d.input(
        image,
        _windows(kernel, groups),
        None,
        list(stride),
        list(padding),
        beyond,
        groups,
        list(dilation),
    )


def _windows(kernel: tuple[int, int], groups: int) -> Tensor:
    """Return a filter for each column of a group, with a one where its element lies."""
    elements = kernel[0] * kernel[1]
    return torch.eye(elements).reshape(elements, 1, *kernel).repeat(groups, 1, 1, 1)


@composition(
    "aten.im2col.default",
    examples=lambda: [
        example(nn.Unfold(2), (2, 2, 3, 4)),
        example(nn.Unfold((2, 3), (2, 1), 1, stride=2), (2, 1, 4, 5)),
    ],
    refusal=_refuse_rank(4),
)
def unfold(call: Call, data: Tensor) -> Tensor:
    """The windows of an image as columns (torch.nn.Unfold): a slice for each element of a window.

    `y[c k + i, q] = x[c, place(q, i)]`, zeros outside.
    """
    shape, attributes = call.operands["data_in_0"].shape, call.attributes
    kernel, stride, dilation = (
        pair(attributes[key], 2, 1) for key in ("kernel_size", "stride", "dilation")
    )
    high, wide = pair(attributes["padding"], 2, 0)
    if high or wide:
        data = aten.constant_pad_nd.default(data, [wide, wide, high, high], 0.0)
    sizes = (shape[2] + 2 * high, shape[3] + 2 * wide)
    steps = [
        (size - step * (count - 1) - 1) // stride[axis]
        for axis, (size, step, count) in enumerate(zip(sizes, dilation, kernel, strict=True))
    ]
    parts = []
    for row in range(kernel[0]):
        start = row * dilation[0]
        lines = aten.slice.Tensor(data, 2, start, start + steps[0] * stride[0] + 1, stride[0])
        for column in range(kernel[1]):
            start = column * dilation[1]
            end = start + steps[1] * stride[1] + 1
            parts.append(aten.slice.Tensor(lines, 3, start, end, stride[1]))
    stacked = aten.stack.default(parts, 2)
    return aten.reshape.default(stacked, [-1, *call.result.shape[1:]])


@composition(
    "aten.unfold.default",
    examples=lambda: [
        example(lambda x: x.unfold(1, 2, 2), (2, 7, 3)),
        example(lambda x: x.unfold(-1, 3, 2), (2, 2, 7)),
        example(lambda x: x.unfold(-1, 2, 3), (2, 2, 8)),
    ],
    refusal=refuse_batch("its windows lie along", "name another dimension", "dimension"),
)
def sliding(call: Call, data: Tensor) -> Tensor:
    """Windows along a dimension (torch.Tensor.unfold): their elements become the last dimension.

    `y[..., i, ..., k] = x[..., i step + k, ...]`, windows of `size`, every `step` elements. What
    does not overlap is cut; else slices, one for each element, stand side by side.
    """
    shape, dim = call.operands["data_in_0"].shape, call.dimension("dimension")
    size, step = int(call.attributes["size"]), int(call.attributes["step"])
    count = call.result.shape[dim]
    if size == step:
        if count * size < shape[dim]:
            data = aten.slice.Tensor(data, dim, 0, count * size)
        apart = [-1, *shape[1:dim], count, size, *shape[dim + 1 :]]
        axes = [*range(dim + 1), *range(dim + 2, len(shape) + 1), dim + 1]
        return aten.permute.default(aten.reshape.default(data, apart), axes)
    last = (count - 1) * step + 1
    parts = [aten.slice.Tensor(data, dim, k, k + last, step) for k in range(size)]
    return aten.stack.default(parts, -1)
