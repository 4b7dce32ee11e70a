"""Where elements along dimensions of a tensor lie in its stream."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from mase_hw.geometry.tensor import Order, TensorSpec


def stream_axes(spec: TensorSpec) -> tuple[int, ...] | None:
    """Return the torch dimension of each dimension of the stream, None when they are mixed."""
    order = spec.order
    if order is None:
        return tuple(range(len(spec.shape)))
    whole = order.view == spec.shape
    return (
        order.axes if whole and order.stream == tuple(spec.shape[i] for i in order.axes) else None
    )


def reshaped_axes(spec: TensorSpec, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the dimension of another shape of each dimension of the stream, which stays as it is.

    None where dimensions become one that do not stream one inside the next, and where the innermost
    one of the stream, along which lanes lie, does not stay whole. A dimension of size 1 streams
    inside the one before it.

    Args:
        spec: a tensor.
        shape: of as many elements.
    """
    axes = stream_axes(spec)
    groups = _regrouped(spec.shape, shape)
    if axes is None or groups is None or spec.shape[axes[-1]] == 1:
        return None
    axes = tuple(axis for axis in axes if spec.shape[axis] > 1)
    first, *others = groups
    axes_made, place = list(first[1]), 0
    while place < len(axes):
        given, made = next(group for group in others if axes[place] in group[0])
        if axes[place : place + len(given)] != tuple(given):
            return None
        axes_made += made
        place += len(given)
    return tuple(axes_made) if len(given) == len(made) == 1 else None


def _regrouped(
    given: tuple[int, ...], made: tuple[int, ...]
) -> list[tuple[list[int], list[int]]] | None:
    """Return dimensions of two shapes that hold the same elements, group by group.

    In front are dimensions of size 1 of the second shape, others belong to what is before them;
    those of the first shape are left out. None for shapes of different sizes.
    """
    groups: list[tuple[list[int], list[int]]] = [([], [])]
    left = [axis for axis, size in enumerate(given) if size > 1]
    sizes = 1, 1
    for axis, size in enumerate(made):
        if size > 1 and sizes[0] == sizes[1]:
            groups.append(([], []))
        groups[-1][1].append(axis)
        sizes = sizes[0], sizes[1] * size
        while sizes[0] < sizes[1] and left:
            groups[-1][0].append(left.pop(0))
            sizes = sizes[0] * given[groups[-1][0][-1]], sizes[1]
    return groups if sizes[0] == sizes[1] and not left else None


def candidate_orders(spec: TensorSpec) -> list[TensorSpec]:
    """Return the stream as it is, in torch's order, and with channels last."""
    orders = [spec.order, None, Order.channels_last(spec.shape)]
    return [spec.with_order(order) for order in orders]


@dataclass(frozen=True)
class Run:
    """Where the reduced elements lie in a stream: again and again `terms` x `inner` beats.

    Attributes:
        terms: rounds that are reduced.
        inner: beats of a round.
        row: elements of a row whose lanes are reduced too; 0 where lanes stay apart.
    """

    terms: int
    inner: int
    row: int = 0

    @classmethod
    def find(cls, spec: TensorSpec, dims: tuple[int, ...]) -> Run | None:
        """Return the run of `dims` in a stream, None when they do not lie side by side."""
        axes = stream_axes(spec)
        if axes is None:
            return None
        sizes = [spec.shape[axis] for axis in axes]
        places = [place for place, axis in enumerate(axes) if axis in dims]
        across = axes[-1] in dims
        long = [place for place in places if sizes[place] > 1 and place < len(axes) - 1]
        first = min(long, default=len(axes) - 1)
        stop = len(axes) - 1 if across else max(long, default=first - 1) + 1
        if any(sizes[place] > 1 and place not in places for place in range(first, stop)):
            return None
        tiles = spec.tiles[1]
        terms, inner = prod(sizes[first:stop]), prod(sizes[stop:-1])
        return cls(terms * tiles, 1, spec.size[1]) if across else cls(terms, inner * tiles)
