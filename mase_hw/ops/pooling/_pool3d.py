"""Pooling of volumes: of every frame first, then over the depth.

A largest element is the same either way. A mean is rounded after each of the two.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

from torch import Tensor

from mase_hw.ops._base import Call
from mase_hw.ops._composite import Composite
from mase_hw.ops.convolution._volumes import separately, triple, volume_problems


class Pool3d(Composite):
    """A pool of volumes; subclasses give those of images."""

    def problems(self, call: Call) -> list[str]:
        return volume_problems(call.operands["data_in_0"].shape) or super().problems(call)

    @abstractmethod
    def pooled(self, call: Call, image: Tensor, dims: Sequence[int | None]) -> Tensor:
        """Return the pool of an image.

        Args:
            call: the pool of the volume.
            image: stands for the image.
            dims: the volume's dimension, 0 to 2, that is the image's height, and its width; None
                for one that stays.
        """

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        shape, result = call.operands["data_in_0"].shape, call.result.shape
        if volume_problems(shape):
            return None
        made = separately(
            operands["data_in_0"],
            shape,
            lambda image: self.pooled(call, image, (1, 2)),
            (result[3], result[4]),
            lambda image: self.pooled(call, image, (0, None)),
            result[2],
        )
        return [made]

    @staticmethod
    def given(call: Call, key: str, dims: Sequence[int | None], otherwise: int) -> list[int]:
        """Argument for the dimensions of an image."""
        value = call.attributes.get(key)
        values = triple(otherwise if value is None else value, otherwise)
        return [otherwise if dim is None else values[dim] for dim in dims]

    def strides(self, call: Call, dims: Sequence[int | None]) -> list[int]:
        """Return the strides, which are the kernel's sizes where they are left out."""
        key = "stride" if call.attributes["stride"] else "kernel_size"
        return self.given(call, key, dims, 1)
