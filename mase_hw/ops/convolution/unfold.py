"""The windows of an image as columns (torch.nn.Unfold): a slice for each element of the window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from mase_hw._aten import aten
from mase_hw.geometry.window import pair
from mase_hw.ops._base import Call, Example, example
from mase_hw.ops._composite import Composite
from mase_hw.ops.convolution._images import no_batch


class Unfold(Composite):
    """`y[c k + i, q] = x[c, place(q, i)]`, zeros outside."""

    name = "unfold"
    targets = ("aten.im2col.default",)

    def problems(self, call: Call) -> list[str]:
        if len(call.operands["data_in_0"].shape) != 4:
            return [no_batch(4)]
        return super().problems(call)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Return the slices, side by side."""
        shape, given = call.operands["data_in_0"].shape, call.attributes
        if len(shape) != 4:
            return None
        kernel, stride, dilation = (
            pair(given[key], 2, 1) for key in ("kernel_size", "stride", "dilation")
        )
        high, wide = pair(given["padding"], 2, 0)
        data = operands["data_in_0"]
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
        return [aten.reshape.default(stacked, [-1, *call.result.shape[1:]])]

    def examples(self) -> list[Example]:
        return [
            example(nn.Unfold(2), (2, 2, 3, 4)),
            example(nn.Unfold((2, 3), (2, 1), 1, stride=2), (2, 1, 4, 5)),
        ]
