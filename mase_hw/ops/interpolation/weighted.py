"""_Interpolation by weights of the elements around (torch.nn.functional.interpolate)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from mase_hw._aten import aten
from mase_hw.geometry.tensor import Order
from mase_hw.geometry.window import Axis, image_size
from mase_hw.ops._base import Call, Example, example
from mase_hw.ops._composite import Composite
from mase_hw.ops._interfaces import Ordered
from mase_hw.ops.convolution._volumes import image_orders, no_batch
from mase_hw.ops.movement._moves import GatherRows


class _Interpolation(Composite):
    """Upsampling, or downsampling, of signals, images and volumes.

    Args:
        mode: torch's word.
        dimensions: of the space.
        examples: see `Operator`.
    """

    def __init__(self, mode: str, dimensions: int, examples: Callable[[], list[Example]]) -> None:
        self.name = f"upsample_{mode}{dimensions}d"
        self.targets = (f"aten.{self.name}.vec",)
        self.mode, self.dimensions, self._examples = mode, dimensions, examples

    def examples(self) -> list[Example]:
        return self._examples()

    def problems(self, call: Call) -> list[str]:
        rank = len(call.operands["data_in_0"].shape)
        if rank != self.dimensions + 2:
            return [no_batch(self.dimensions + 2)]
        return super().problems(call)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        shape, result = call.operands["data_in_0"].shape, call.result.shape
        if len(shape) != self.dimensions + 2:
            return None
        data, last = operands["data_in_0"], len(shape) - 1
        for dim in range(last, 1, -1):
            weight = self._map(call, dim, shape[dim], result[dim])
            if torch.equal(weight, torch.eye(shape[dim])):
                continue
            data = data if dim == last else aten.transpose.int(data, dim, last)
            data = aten.linear.default(data, weight)
            data = data if dim == last else aten.transpose.int(data, dim, last)
        return [aten.alias.default(data)] if data is operands["data_in_0"] else [data]

    def _map(self, call: Call, dim: int, size: int, positions: int) -> Tensor:
        """Weight of each pixel in each position, `[positions, pixels]`."""
        attributes = call.attributes
        scales = attributes.get("scale_factors")
        # One pixel in the other dimensions leaves this one alone.
        space, target = [1] * self.dimensions, [1] * self.dimensions
        space[dim - 2], target[dim - 2] = size, positions
        factors = [1.0] * self.dimensions
        if scales:
            factors[dim - 2] = float(scales[dim - 2])
        found = torch.nn.functional.interpolate(
            torch.eye(size).reshape(size, 1, *space),
            size=None if scales else target,
            scale_factor=factors if scales else None,
            mode=self.mode,
            align_corners=bool(attributes.get("align_corners")),
        )
        return found.reshape(size, positions).t().contiguous()


INTERPOLATIONS = (
    _Interpolation(
        "linear",
        1,
        lambda: [example(nn.Upsample(scale_factor=2, mode="linear"), (2, 3, 4))],
    ),
    _Interpolation(
        "bilinear",
        2,
        lambda: [
            example(nn.Upsample(scale_factor=2, mode="bilinear"), (2, 2, 3, 2)),
            example(nn.Upsample(size=(5, 3), mode="bilinear", align_corners=True), (2, 2, 3, 2)),
        ],
    ),
    _Interpolation(
        "trilinear",
        3,
        lambda: [example(nn.Upsample(scale_factor=2, mode="trilinear"), (2, 1, 2, 2, 3))],
    ),
    _Interpolation(
        "bicubic",
        2,
        lambda: [example(nn.Upsample(scale_factor=(2, 1.5), mode="bicubic"), (2, 1, 3, 4))],
    ),
)


class _Nearest(GatherRows, Ordered):
    """Nearest-neighbour upsampling (torch.nn.functional.interpolate).

    `y[q] = x[floor(q * size / n)]` along each axis in mode `nearest`, with torch's own scale where
    one is given, and `y[q] = x[floor((q + 1/2) * size / n)]` in mode `nearest-exact`.

    Args:
        name: of the operator.
        target: name of the torch operator.
        mode: torch's word.
        examples: see `Operator`.
    """

    def __init__(
        self, name: str, target: str, mode: str, examples: Callable[[], list[Example]]
    ) -> None:
        self.name, self.targets = name, (f"aten.{target}.vec",)
        self.mode, self._examples = mode, examples

    def examples(self) -> list[Example]:
        return self._examples()

    def orders(self, call: Call) -> dict[str, Order | None]:
        return image_orders(call)

    def axes(self, call: Call) -> tuple[Axis, Axis]:
        _, height, width = image_size(call.operands["data_in_0"])
        space = call.operands["data_in_0"].shape[2:]
        places = torch.arange(height * width).reshape(1, 1, *space)
        found = self.copy(call, places).reshape(-1, image_size(call.result)[2])
        rows, columns = found[:, 0] // width, found[0] % width
        return Axis.of(height, rows[:, None].tolist()), Axis.of(width, columns[:, None].tolist())

    def copy(self, call: Call, codes: Tensor) -> Tensor:
        upsample = torch.nn.functional.interpolate
        attributes = call.attributes
        size = attributes["output_size"]
        repeated = upsample(
            codes.double(),
            size=size,
            scale_factor=None if size else attributes["scale_factors"],
            mode=self.mode,
        )
        return repeated.to(torch.int64)


UPSAMPLINGS = (
    _Nearest(
        "upsample_nearest1d",
        "upsample_nearest1d",
        "nearest",
        lambda: [example(nn.Upsample(scale_factor=3), (2, 3, 4))],
    ),
    _Nearest(
        "upsample_nearest2d",
        "upsample_nearest2d",
        "nearest",
        lambda: [
            example(nn.Upsample(scale_factor=2), (2, 3, 2, 3)),
            example(nn.Upsample(size=(3, 5)), (2, 2, 2, 3)),
        ],
    ),
    _Nearest(
        "upsample_nearest_exact1d",
        "_upsample_nearest_exact1d",
        "nearest-exact",
        lambda: [example(nn.Upsample(size=7, mode="nearest-exact"), (2, 3, 4))],
    ),
    # Whole factors give what `nearest` gives; others do not.
    _Nearest(
        "upsample_nearest_exact2d",
        "_upsample_nearest_exact2d",
        "nearest-exact",
        lambda: [
            example(nn.Upsample(scale_factor=3, mode="nearest-exact"), (2, 2, 2, 2)),
            example(nn.Upsample(size=(3, 5), mode="nearest-exact"), (2, 2, 2, 3)),
        ],
    ),
)
