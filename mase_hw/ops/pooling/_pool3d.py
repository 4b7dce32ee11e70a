"""Pooling of volumes: of every frame first, then over the depth.

A largest element is the same either way. A mean is rounded after each of the two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from mase_hw.ops._base import Call
from mase_hw.ops.convolution._volumes import separately, triple, volume_problems

# The volume's dimension, 0 to 2, that is an image's height, and its width; None for one that stays.
Dims = Sequence[int | None]


def refuse_shape(call: Call) -> list[str]:
    """Refuse what is no batch of volumes."""
    return volume_problems(call.operands["data_in_0"].shape)


def pooled(call: Call, volume: Tensor, pool: Callable[[Tensor, Dims], Tensor]) -> Tensor:
    """Return the pool of a volume: those of its frames, and over them.

    Args:
        call: the pool.
        volume: stands for the operand.
        pool: of an image, with the dimensions of the volume that it has.
    """
    result = call.result.shape
    return separately(
        volume,
        call.operands["data_in_0"].shape,
        lambda image: pool(image, (1, 2)),
        (result[3], result[4]),
        lambda image: pool(image, (0, None)),
        result[2],
    )


def argument(call: Call, key: str, dims: Dims, default: int) -> list[int]:
    """Return an argument for the dimensions of an image."""
    value = call.attributes.get(key)
    values = triple(default if value is None else value, default)
    return [default if dim is None else values[dim] for dim in dims]


def strides(call: Call, dims: Dims) -> list[int]:
    """Return the strides, which are the kernel's sizes where they are left out."""
    return argument(call, "stride" if call.attributes["stride"] else "kernel_size", dims, 1)


def positions(call: Call, dims: Dims) -> list[int]:
    """Return the size of an image's pool."""
    depth, height, width = call.result.shape[2:]
    return [height * width if dim is None else (depth, height, width)[dim] for dim in dims]
