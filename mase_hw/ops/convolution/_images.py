"""What operators on images share."""

from __future__ import annotations

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
