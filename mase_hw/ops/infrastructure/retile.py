"""The same tensor in another order or tiling; inserted where two sides of an edge differ."""

from __future__ import annotations

from torch import Tensor

from mase_hw.geometry.tensor import Order
from mase_hw.ops._base import Call
from mase_hw.ops._library import copied, define
from mase_hw.ops._tiling import Ordered, Tiled
from mase_hw.ops.movement._layout import Layout

define("retile(Tensor self) -> Tensor", copied)


class Retile(Layout, Tiled, Ordered):
    """Nothing moves but the cuts between beats."""

    name = "retile"
    targets = ("mase.retile.default",)
    role = "retile"

    def move(self, call: Call, tensor: Tensor) -> Tensor:
        return tensor

    def ties(self, call: Call) -> list[list[tuple[str, int]]]:
        """Nothing is tied: that is what it is for."""
        return []

    def orders(self, call: Call) -> dict[str, Order | None]:
        """Any order goes in; the result keeps the one it was made for."""
        return {
            "data_in_0": call.operands["data_in_0"].order,
            "data_out_0": call.result.order,
        }
