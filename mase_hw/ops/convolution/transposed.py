"""Transposed convolutions along one, two and three dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from torch import Tensor, nn

from mase_hw._aten import aten
from mase_hw.geometry.window import OUTSIDE, Axis, image_size, pair
from mase_hw.ops._base import Call, Example, example
from mase_hw.ops._composite import composition
from mase_hw.ops.convolution._convolution import Convolution
from mase_hw.ops.convolution._volumes import convolution_problems, tall, triple, untall


class ConvTranspose2d(Convolution):
    """Transposed convolution of images (torch.nn.functional.conv_transpose2d).

    `y[o, q] = cast(b[o] + sum_{c, k} w[c, o, k] x[c, (q + padding - k * dilation) / stride])` over
    the `k` for which the place is whole and inside; every product and sum exact, rounded once.
    """

    name = "conv_transpose2d"
    targets = ("aten.conv_transpose2d.input",)
    dimensions = 2
    result_axis = 1

    def block_axis(self, name: str) -> int:
        return super().block_axis(name) - (name == "weight")

    def axes(self, call: Call) -> tuple[Axis, Axis]:
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
        groups = int(call.attributes["groups"])
        apart = weight.reshape(groups, -1, *weight.shape[1:])
        return apart.transpose(1, 2).flatten(0, 1)

    def examples(self) -> list[Example]:
        return [
            example(
                nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1), (2, 3, 3, 2)
            ),
            example(nn.ConvTranspose2d(4, 6, 2, groups=2, dilation=2), (2, 4, 2, 3)),
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


class ConvTranspose1d(ConvTranspose2d):
    """Transposed convolution of signals (torch.nn.functional.conv_transpose1d)."""

    name = "conv_transpose1d"
    targets = ("aten.conv_transpose1d.default",)
    dimensions = 1

    def examples(self) -> list[Example]:
        return [
            example(nn.ConvTranspose1d(3, 3, 4, stride=2, padding=1), (2, 3, 5)),
        ]


@composition(
    "aten.conv_transpose3d.input",
    examples=lambda: [
        example(
            nn.ConvTranspose3d(2, 3, (2, 3, 2), (2, 2, 1), (0, 1, 1), (1, 1, 0)),
            (2, 2, 2, 2, 3),
        ),
        example(
            nn.ConvTranspose3d(4, 4, (2, 1, 2), 2, groups=2, dilation=(2, 1, 1), bias=False),
            (2, 4, 2, 2, 2),
        ),
    ],
    refusal=convolution_problems,
)
def conv_transpose3d(
    call: Call, data: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    """Transposed convolution of volumes (torch.nn.functional.conv_transpose3d).

    Written with one transposed convolution of images: zero frames stand between those of the
    volume, the frames of each window over the depth are channels, and the windows lie one below the
    other in one tall image, so that every sum is exact and rounded once.
    """
    shape, result = call.operands["data_in_0"].shape, call.result.shape
    kernel = call.operands["weight"].shape[2:]
    stride, dilation = (triple(call.attributes[key], 1) for key in ("stride", "dilation"))
    padding, behind = (triple(call.attributes[key], 0) for key in ("padding", "output_padding"))
    data, depth = _stuffed(data, shape, stride[0])
    span = dilation[0] * (kernel[0] - 1)
    front, back = span - padding[0], span - padding[0] + behind[0]
    height, width = shape[3:]
    # Each frame has rows enough for all of its results before those of the next begin.
    covered = dilation[1] * (kernel[1] - 1) + 1
    needed = max((height - 1) * stride[1] + covered, padding[1] + result[3])
    rows = -(-needed // stride[1])
    data = aten.constant_pad_nd.default(data, [0, 0, front, back], 0.0)
    depth += front + back
    data = aten.reshape.default(data, [-1, shape[1] * depth, height, width])
    if rows > height:
        data = aten.constant_pad_nd.default(data, [0, 0, 0, rows - height], 0.0)
    volume = (shape[0], shape[1], depth, rows, width)
    image = tall(data, volume, kernel[0], 1, dilation[0], result[2])
    weight = aten.permute.default(aten.flip.default(weight, [2]), [0, 2, 1, 3, 4])
    weight = aten.flatten.using_ints(weight, 0, 1)
    missing = stride[1] - covered
    image = aten.conv_transpose2d.input(
        image,
        weight,
        bias,
        list(stride[1:]),
        [0, padding[2]],
        [max(missing, 0), behind[2]],
        call.attributes["groups"],
        list(dilation[1:]),
    )
    if missing < 0:
        image = aten.slice.Tensor(image, 2, 0, result[2] * rows * stride[1])
    return untall(image, result[1:], rows * stride[1], padding[1])


def _stuffed(data: Tensor, shape: Sequence[int], stride: int) -> tuple[Tensor, int]:
    """Return the frames as rows of an image, with zero rows between them, and the rows."""
    _, channels, depth, height, width = shape
    if stride == 1:
        return aten.reshape.default(data, [-1, channels, depth, height * width]), depth
    rows = aten.reshape.default(data, [-1, channels * depth, 1, height * width])
    rows = aten.constant_pad_nd.default(rows, [0, 0, 0, stride - 1], 0.0)
    rows = aten.reshape.default(rows, [-1, channels, depth * stride, height * width])
    size = (depth - 1) * stride + 1
    return aten.slice.Tensor(rows, 2, 0, size), size
