"""Columns put back in their windows (torch.nn.Fold): what overlaps is added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from mase_hw._aten import aten
from mase_hw.geometry.window import pair
from mase_hw.ops._base import Call, Example, example
from mase_hw.ops._composite import Composite
from mase_hw.ops.convolution._images import no_batch


class Fold(Composite):
    """`y[c, place(q, i)] += x[c k + i, q]`: a transposed convolution with one weight a window."""

    name = "fold"
    targets = ("aten.col2im.default",)

    def problems(self, call: Call) -> list[str]:
        if len(call.operands["data_in_0"].shape) != 3:
            return [no_batch(3)]
        return super().problems(call)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Return the transposed convolution of the columns as an image."""
        shape, given = call.operands["data_in_0"].shape, call.attributes
        if len(shape) != 3:
            return None
        kernel, stride, dilation, padding = (
            pair(given[key], 2, 0) for key in ("kernel_size", "stride", "dilation", "padding")
        )
        sizes = [int(size) for size in given["output_size"]]
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
        image = aten.reshape.default(operands["data_in_0"], [-1, shape[1], *places])
        groups = shape[1] // (kernel[0] * kernel[1])
        # What no window reaches stays zero.
        folded = aten.conv_transpose2d.input(
            image,
            _windows(kernel, groups),
            None,
            list(stride),
            list(padding),
            beyond,
            groups,
            list(dilation),
        )
        return [folded]

    def examples(self) -> list[Example]:
        """Windows that overlap, with padding, and that do not reach the end."""
        return [
            example(nn.Fold((4, 5), (2, 3), padding=(1, 0)), (2, 12, 15)),
            example(nn.Fold((5, 4), 2, stride=2), (2, 4, 4)),
        ]


def _windows(kernel: tuple[int, int], groups: int) -> Tensor:
    """Return a filter for each column of a group, with a one where its element lies."""
    elements = kernel[0] * kernel[1]
    return torch.eye(elements).reshape(elements, 1, *kernel).repeat(groups, 1, 1, 1)
