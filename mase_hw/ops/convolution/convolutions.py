"""Convolutions along one, two and three dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from mase_hw._aten import aten
from mase_hw.geometry.window import Axis, image_size, pair
from mase_hw.ops._base import Call, Example, example
from mase_hw.ops._composite import composition
from mase_hw.ops.convolution._convolution import Convolution
from mase_hw.ops.convolution._volumes import convolution_problems, padded, tall, triple, untall


class Conv2d(Convolution):
    """Convolution of images (torch.nn.functional.conv2d), zeros outside."""

    name = "conv2d"
    targets = ("aten.conv2d.default", "aten.conv2d.padding")
    dimensions = 2

    def axes(self, call: Call) -> tuple[Axis, Axis]:
        _, *sizes = image_size(call.operands["data_in_0"])
        _, *positions = image_size(call.result)
        kernel = pair(call.operands["weight"].shape[2:], self.dimensions, 1)
        stride = pair(call.attributes["stride"], self.dimensions, 1)
        dilation = pair(call.attributes["dilation"], self.dimensions, 1)
        padding = call.attributes["padding"]
        if isinstance(padding, str):
            # With `same`, an odd column of padding goes behind.
            spans = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
            before = [span // 2 if padding == "same" else 0 for span in spans]
        else:
            before = list(pair(padding, self.dimensions, 0))
        vertical, horizontal = (
            Axis.sliding(sizes[i], kernel[i], stride[i], dilation[i], before[i], positions[i])
            for i in (0, 1)
        )
        return vertical, horizontal

    def filters(self, call: Call, weight: Tensor) -> Tensor:
        return weight

    def examples(self) -> list[Example]:
        return [
            example(nn.Conv2d(2, 3, (3, 2), stride=(2, 1), padding=1, bias=False), (2, 2, 7, 4)),
            example(nn.Conv2d(6, 6, 3, groups=2, dilation=(1, 2)), (2, 6, 3, 6)),
            example(nn.Conv2d(4, 4, 3, padding="same", groups=4), (2, 4, 3, 4)),
        ]


class Conv1d(Conv2d):
    """Convolution of signals (torch.nn.functional.conv1d), zeros outside."""

    name = "conv1d"
    targets = ("aten.conv1d.default", "aten.conv1d.padding")
    dimensions = 1

    def examples(self) -> list[Example]:
        return [
            example(nn.Conv1d(3, 4, 3, stride=2, padding=2), (2, 3, 9)),
        ]


@composition(
    "aten.conv3d.default",
    "aten.conv3d.padding",
    examples=lambda: [
        example(nn.Conv3d(2, 3, (2, 3, 2), stride=(1, 2, 1), padding=(0, 1, 0)), (2, 2, 3, 4, 3)),
        example(
            nn.Conv3d(4, 4, (2, 1, 2), groups=2, dilation=(2, 1, 1), bias=False),
            (2, 4, 4, 2, 3),
        ),
        example(nn.Conv3d(1, 2, (2, 2, 3), padding="same"), (2, 1, 2, 3, 3)),
    ],
    refusal=convolution_problems,
)
def conv3d(call: Call, data: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Convolution of volumes (torch.nn.functional.conv3d), zeros outside.

    Written with one convolution of images: the frames of each window over the depth are channels,
    and the windows lie one below the other in one tall image, so that every sum is exact and
    rounded once.
    """
    shape, result = call.operands["data_in_0"].shape, call.result.shape
    kernel = call.operands["weight"].shape[2:]
    stride, dilation = (triple(call.attributes[key], 1) for key in ("stride", "dilation"))
    data, shape = padded(data, shape, _padding(call, kernel, dilation))
    # Every frame begins at a row that the stride meets.
    extra = -shape[3] % stride[1]
    if extra:
        data, shape = padded(data, shape, ((0, 0), (0, extra), (0, 0)))
    depth = result[2]
    image = tall(data, shape, kernel[0], stride[0], dilation[0], depth)
    rows, covered = shape[3] // stride[1], dilation[1] * (kernel[1] - 1) + 1
    # The last frame needs rows behind it where its windows would end too early.
    missing = (depth * rows - 1) * stride[1] + covered - depth * shape[3]
    if missing > 0:
        image = aten.constant_pad_nd.default(image, [0, 0, 0, missing], 0.0)
    weight = aten.flatten.using_ints(weight, 1, 2)
    image = aten.conv2d.default(
        image,
        weight,
        bias,
        list(stride[1:]),
        [0, 0],
        list(dilation[1:]),
        call.attributes["groups"],
    )
    return untall(image, result[1:], rows)


def _padding(call: Call, kernel: Sequence[int], dilation: Sequence[int]) -> list[tuple[int, int]]:
    """Return zeros before and behind, of every dimension."""
    padding = call.attributes["padding"]
    if not isinstance(padding, str):
        return [(amount, amount) for amount in triple(padding, 0)]
    spans = [d * (k - 1) if padding == "same" else 0 for d, k in zip(dilation, kernel, strict=True)]
    return [(span // 2, span - span // 2) for span in spans]
