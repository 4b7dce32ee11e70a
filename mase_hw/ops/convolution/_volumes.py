"""Images, and volumes, `[batch, channels, depth, height, width]`, as images that operators take.

What works along each dimension for itself, such as padding and pooling, works on the frames of a
volume first, which are channels of an image, and then along the depth, whose frames are rows of an
image. What sums over all three at once has the frames of each window side by side as channels, and
the windows one below the other as one tall image.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from mase_hw._aten import aten
from mase_hw.geometry.tensor import Order
from mase_hw.ops._base import Call


def image_orders(call: Call) -> dict[str, Order | None]:
    """Return the orders of an image that goes in and an image that comes out."""
    return {
        "data_in_0": Order.channels_last(call.operands["data_in_0"].shape),
        "data_out_0": Order.channels_last(call.result.shape),
    }


def no_batch(dimensions: int) -> str:
    """Message for an input that has fewer dimensions than an operator takes."""
    return (
        f"its input has no batch dimension: give it {dimensions} dimensions, the batch first, such "
        "as unsqueeze(0) makes"
    )


def triple(given: Any, default: int) -> tuple[int, int, int]:
    """Return an argument of three dimensions that may be given once for all, or be left out."""
    values = [int(item) for item in given] if isinstance(given, list | tuple) else [int(given)]
    if not values:
        values = [default]
    depth, height, width = values * 3 if len(values) == 1 else values
    return depth, height, width


def volume_problems(shape: Sequence[int]) -> list[str]:
    """Obstacles in the shape of a volume."""
    if len(shape) != 5:
        return [no_batch(5)]
    return []


def convolution_problems(call: Call) -> list[str]:
    """Return why a convolution of volumes is not taken: no batch dimension, weights that stream."""
    problems = volume_problems(call.operands["data_in_0"].shape)
    if "weight" not in call.constants:
        problems.append("the weight is computed by the model; only constant weights are legal")
    if min(call.result.shape) < 1:
        problems.append("its result has no elements; give it a larger input")
    return problems


def separately(
    data: Tensor,
    shape: Sequence[int],
    frames: Callable[[Tensor], Tensor],
    frame_size: tuple[int, int],
    depths: Callable[[Tensor], Tensor],
    depth_size: int,
) -> Tensor:
    """Result of an operator on a volume that works along each dimension for itself.

    Args:
        data: stands for the volume.
        shape: of the volume.
        frames: takes an image whose channels are those of all frames.
        frame_size: height and width of its result.
        depths: takes an image whose rows are frames.
        depth_size: rows of its result.
    """
    batch, channels, depth = -1, shape[1], shape[2]
    height, width = frame_size
    images = aten.reshape.default(data, [batch, channels * depth, *shape[3:]])
    images = frames(images)
    rows = aten.reshape.default(images, [batch, channels, depth, height * width])
    rows = depths(rows)
    return aten.reshape.default(rows, [batch, channels, depth_size, height, width])


def tall(
    data: Tensor,
    shape: Sequence[int],
    kernel: int,
    stride: int,
    dilation: int,
    depth: int,
) -> Tensor:
    """Return an image of windows over the depth, one below the other, their frames as channels.

    Channel `c * kernel + k` of window `d` is channel c of frame `d * stride + k * dilation`.

    Args:
        data: stands for the volume.
        shape: of the volume.
        kernel: frames of a window.
        stride: frames between windows.
        dilation: frames between frames of a window.
        depth: the number of windows.
    """
    _, channels, _, height, width = shape
    rows = aten.reshape.default(data, [-1, channels, shape[2], height * width])
    ends = [(k * dilation, k * dilation + (depth - 1) * stride + 1) for k in range(kernel)]
    parts = [aten.slice.Tensor(rows, 2, start, end, stride) for start, end in ends]
    stacked = aten.stack.default(parts, 2) if kernel > 1 else parts[0]
    return aten.reshape.default(stacked, [-1, channels * kernel, depth * height, width])


def untall(data: Tensor, size: Sequence[int], rows: int, first: int = 0) -> Tensor:
    """Return the volume whose frames lie one below the other in a tall image.

    Args:
        data: stands for the image.
        size: channels, depth, height and width of the volume.
        rows: of the image, between the frames.
        first: the row of these with which a frame begins.
    """
    channels, depth, height, width = size
    frames = aten.reshape.default(data, [-1, channels * depth, rows, width])
    if rows > height:
        frames = aten.slice.Tensor(frames, 2, first, first + height)
    return aten.reshape.default(frames, [-1, channels, depth, height, width])


def padded(data: Tensor, shape: Sequence[int], amounts: Sequence[tuple[int, int]]) -> Any:
    """Return a volume with zeros around it, and its shape.

    Args:
        data: stands for the volume.
        shape: of the volume.
        amounts: before and behind, of depth, height and width.
    """
    (front, back), (top, bottom), (left, right) = amounts
    _, channels, depth, height, width = shape
    height, width = height + top + bottom, width + left + right

    def frames(images: object) -> Any:
        if not (top or bottom or left or right):
            return images
        return aten.constant_pad_nd.default(images, [left, right, top, bottom], 0.0)

    def depths(rows: object) -> Any:
        if not (front or back):
            return rows
        return aten.constant_pad_nd.default(rows, [0, 0, front, back], 0.0)

    total = depth + front + back
    padding = separately(data, shape, frames, (height, width), depths, total)
    return padding, (shape[0], channels, total, height, width)
