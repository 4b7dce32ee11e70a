"""Upsampling by the nearest element."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from mase_hw.geometry.tensor import Order
from mase_hw.geometry.window import Axis, image_size
from mase_hw.ops._base import Call, Example, example
from mase_hw.ops._tiling import Ordered
from mase_hw.ops.convolution._volumes import image_orders
from mase_hw.ops.movement._moves import GatherRows


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
        """Look up which row and column torch repeats where."""
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
