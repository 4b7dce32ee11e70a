"""Orders of streams of different shapes that meet in an element-wise operator."""

from __future__ import annotations

from mase_hw.geometry.runs import stream_axes
from mase_hw.geometry.tensor import Order, TensorSpec
from mase_hw.ops._base import Call


def broadcast_orders(call: Call) -> dict[str, Order | None]:
    """Return one order for the result and all streams, the smaller ones with dimensions of 1.

    It is the first that an operand of the result's shape offers and that is not torch's own; where
    all operands are smaller, the first that any offers.
    """
    streams, shape = call.streams, call.result.shape
    whole = [spec for spec in streams.values() if spec.shape == shape]
    if len(whole) == len(streams):
        offered = [spec.order for spec in whole if spec.order is not None]
        return dict.fromkeys([*streams, *call.results], offered[0] if offered else None)
    axes = tuple(range(len(shape)))
    for spec in whole or [spec for spec in streams.values() if len(spec.shape) == len(shape)]:
        found = stream_axes(spec)
        if spec.order is not None and found is not None:
            axes = found
            break
    return {
        name: aligned_order(spec, len(shape), axes)
        for name, spec in {**streams, **call.results}.items()
    }


def aligned_order(spec: TensorSpec, rank: int, axes: tuple[int, ...]) -> Order | None:
    """Return the order of a stream that is given further leading dimensions, and then permuted."""
    shape = (1,) * (rank - len(spec.shape)) + spec.shape
    stream = tuple(shape[axis] for axis in axes)
    return Order(shape, axes, stream).simplified(spec.shape)
