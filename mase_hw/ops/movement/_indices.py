"""Slices at constant indices, and orders of streams of different shapes that meet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor

from mase_hw._aten import aten
from mase_hw.geometry.runs import stream_axes
from mase_hw.geometry.tensor import Order, TensorSpec
from mase_hw.ops._base import Call


def picked(data: Tensor, dim: int, indices: Sequence[int]) -> Tensor:
    """Return `data` at indices of one dimension: slices, turned where they fall, side by side.

    Args:
        data: what records calls on a tensor.
        dim: the dimension.
        indices: from 0 to its size less one, in any order.
    """
    parts = []
    for run in runs(indices):
        low, high = min(run[0], run[-1]), max(run[0], run[-1])
        step = abs(run[1] - run[0]) if len(run) > 1 else 1
        part = aten.slice.Tensor(data, dim, low, high + 1, step)
        parts.append(aten.flip.default(part, [dim]) if run[-1] < run[0] else part)
    return parts[0] if len(parts) == 1 else aten.cat.default(parts, dim)


def runs(indices: Sequence[int]) -> Iterator[list[int]]:
    """Yield the longest pieces of a list whose neighbours are at one distance, which is not 0."""
    run: list[int] = []
    for index in indices:
        step = run[1] - run[0] if len(run) > 1 else index - run[0] if run else 1
        if not run or (step != 0 and index - run[-1] == step):
            run.append(index)
        else:
            yield run
            run = [index]
    if run:
        yield run


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
