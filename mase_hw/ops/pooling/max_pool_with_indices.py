"""Largest elements of windows, and where they lie (torch.max_pool2d with return_indices)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import max_pool1d, max_pool2d, max_pool3d

from mase_hw.geometry.window import Axis
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite
from mase_hw.ops.convolution._images import no_batch
from mase_hw.ops.pooling._windows import indices


class MaxPoolWithIndices(Composite):
    """Both results are computed by themselves."""

    name = "max_pool_with_indices"
    targets = (
        "aten.max_pool1d_with_indices.default",
        "aten.max_pool2d_with_indices.default",
        "aten.max_pool3d_with_indices.default",
    )

    def problems(self, call: Call) -> list[str]:
        rank = len(call.operands["data_in_0"].shape)
        if rank < 3 or rank - 2 != self._dimensions(call):
            return [no_batch(self._dimensions(call) + 2)]
        return super().problems(call)

    @staticmethod
    def _dimensions(call: Call) -> int:
        return len(call.attributes["kernel_size"])

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        count, data = self._dimensions(call), operands["data_in_0"]
        shapes = call.operands["data_in_0"].shape[2:], call.result.shape[2:]
        if any(len(shape) != count for shape in shapes):
            return None
        given = call.attributes
        keys = ("kernel_size", "stride", "padding", "dilation")
        kernel, stride, padding, dilation = (_each(given.get(key), count) for key in keys)
        stride = stride or kernel
        padding, dilation = padding or [0] * count, dilation or [1] * count
        axes = [
            Axis.sliding(*item)
            for item in zip(shapes[0], kernel, stride, dilation, padding, shapes[1], strict=True)
        ]
        pool = getattr(torch.ops.aten, f"max_pool{count}d").default
        ceil = bool(given.get("ceil_mode", False))
        values = pool(data, kernel, stride, padding, dilation, ceil)
        channels = call.result.shape[1]
        return [values, indices(data, channels, shapes[1], axes)]

    def examples(self) -> list[Example]:
        signals = Apply(lambda x: max_pool1d(x, 2, return_indices=True)[1])

        def both(x: Tensor) -> Any:
            return max_pool2d(x, 3, 2, 1, return_indices=True)

        images = Apply(both)
        wide = Apply(lambda x: max_pool2d(x, 2, 1, 1, 2, return_indices=True)[1])
        volumes = Apply(lambda x: max_pool3d(x, 2, return_indices=True)[1])
        return [
            (signals, (example_values(2, 3, 7),)),
            (images, (example_values(2, 3, 5, 4),)),
            (wide, (example_values(2, 2, 4, 5),)),
            (volumes, (example_values(2, 2, 4, 2, 5),)),
        ]


def _each(given: Any, count: int) -> list[int]:
    """Return an argument for each dimension; nothing where it is left out."""
    values = [given] if isinstance(given, int) else [int(item) for item in given or ()]
    return values * count if len(values) == 1 else values
