"""Transposed convolution of images (torch.nn.functional.conv_transpose2d).

`y[o, q] = cast(b[o] + sum_{c, k} w[c, o, k] x[c, (q + padding - k * dilation) / stride])` over the
`k` for which the place is whole and inside; every product and sum exact, rounded once.
"""

from __future__ import annotations

from functools import cache

from torch import Tensor, nn

from mase_hw.geometry.window import OUTSIDE, Axis, image_size, pair
from mase_hw.ops._base import Call, Example, example_values
from mase_hw.ops.convolution._convolution import Convolution


class ConvTranspose2d(Convolution):
    """A window over the image with zeros between its pixels, which the tables leave out."""

    name = "conv_transpose2d"
    targets = ("aten.conv_transpose2d.input",)
    dimensions = 2
    result_axis = 1

    def block_axis(self, name: str) -> int:
        """Channels are the first dimension of the weight."""
        return super().block_axis(name) - (name == "weight")

    def axes(self, call: Call) -> tuple[Axis, Axis]:
        """Say for each position which pixels its results come from."""
        _, *sizes = image_size(call.operands["data_in_0"])
        _, *positions = image_size(call.result)
        kernel = pair(call.operands["weight"].shape[2:], self.dimensions, 1)
        stride = pair(call.attributes["stride"], self.dimensions, 1)
        dilation = pair(call.attributes["dilation"], self.dimensions, 1)
        padding = pair(call.attributes["padding"], self.dimensions, 0)
        vertical, horizontal = (
            _axis(sizes[i], kernel[i], stride[i], dilation[i], padding[i], positions[i])
            for i in (0, 1)
        )
        return vertical, horizontal

    def filters(self, call: Call, weight: Tensor) -> Tensor:
        """From channels x results of a group to results x channels of a group."""
        groups = int(call.attributes["groups"])
        apart = weight.reshape(groups, -1, *weight.shape[1:])
        return apart.transpose(1, 2).flatten(0, 1)

    def examples(self) -> list[Example]:
        """Stride with output padding; groups."""
        return [
            (
                nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1),
                (example_values(2, 3, 3, 2),),
            ),
            (nn.ConvTranspose2d(4, 6, 2, groups=2, dilation=2), (example_values(2, 4, 2, 3),)),
        ]


@cache
def _axis(size: int, kernel: int, stride: int, dilation: int, padding: int, positions: int) -> Axis:
    def place(position: int, element: int) -> int:
        index, rest = divmod(position + padding - element * dilation, stride)
        return OUTSIDE if rest else index

    return Axis.of(
        size,
        [[place(position, element) for element in range(kernel)] for position in range(positions)],
    )
