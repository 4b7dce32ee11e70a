"""Windows of an image that are listed, row by row and column by column, and not described.

Pools with indices are written with them, of whatever dimension, and pools whose windows were drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.geometry.window import Axis, Gather
from mase_hw.ops._base import Call
from mase_hw.ops.pooling._pool import Pool

WINDOWS = "(Tensor self, int[] rows, int[] columns, int[] kernel) -> Tensor"


class ListedWindows(Pool):
    """A pool whose windows are the arguments `rows`, `columns` and the size `kernel` of both.

    The rows of one window follow each other, then those of the next; -1 is outside.
    """

    dimensions = 2
    maximum = True

    def axes(self, call: Call) -> tuple[Axis, Axis]:
        sizes = call.operands["data_in_0"].shape[2:]
        return axes_of(sizes, *(call.attributes[key] for key in ("rows", "columns", "kernel")))


def axes_of(
    sizes: Sequence[int], rows: Sequence[int], columns: Sequence[int], kernel: Sequence[int]
) -> tuple[Axis, Axis]:
    """Return the axes of listed windows over an image."""
    vertical, horizontal = (
        Axis.of(size, torch.tensor(list(places)).reshape(-1, count).tolist())
        for size, places, count in zip(sizes, (rows, columns), kernel, strict=True)
    )
    return vertical, horizontal


def listed(rows: Axis, columns: Axis) -> list[list[int]]:
    """Return the arguments that give two axes: rows, columns and the size of a window."""
    places = [axis.indices.reshape(-1).tolist() for axis in (rows, columns)]
    return [*places, [rows.kernel, columns.kernel]]


def merged(outer: Axis, inner: Axis) -> Axis:
    """Return two axes as one, whose places are those of both dimensions as one."""
    first = torch.from_numpy(outer.indices)[:, None, :, None]
    second = torch.from_numpy(inner.indices)[None, :, None, :]
    places = torch.where((first < 0) | (second < 0), -1, first * inner.size + second)
    windows = places.reshape(outer.positions * inner.positions, -1)
    return Axis.of(outer.size * inner.size, windows.tolist())


def indices(data: Tensor, channels: int, positions: Sequence[int], axes: Sequence[Axis]) -> Any:
    """Return the places of the largest elements of windows over one to three dimensions.

    Args:
        data: stands for `[batch, channels, ...]`.
        channels: how many there are.
        positions: of the windows, in each dimension.
        axes: of the windows, one for each dimension.
    """
    return _reduced(torch.ops.mase.window_index.default, data, channels, positions, axes)


def largest(data: Tensor, channels: int, positions: Sequence[int], axes: Sequence[Axis]) -> Tensor:
    """Return the largest elements themselves."""
    return _reduced(torch.ops.mase.window_max.default, data, channels, positions, axes)


def _reduced(
    target: Callable[..., object],
    data: Tensor,
    channels: int,
    positions: Sequence[int],
    axes: Sequence[Axis],
) -> Tensor:
    *outer, across = [Axis.of(1, [[0]]), *axes]
    down = outer[0]
    for axis in outer[1:]:
        down = merged(down, axis)
    image = aten.reshape.default(data, [-1, channels, down.size, across.size])
    found = target(image, *listed(down, across))
    result: Tensor = aten.reshape.default(found, [-1, channels, *positions])
    return result


def windows_of(values: Tensor, rows: list[int], columns: list[int], kernel: list[int]) -> Tensor:
    """Return `[batch, channels, elements of a window, positions]`, minus infinity outside."""
    axes = axes_of(values.shape[2:], rows, columns, kernel)
    fill: Any = -torch.inf
    return Gather(*axes, fill=fill)(values)


def empty_result(
    values: Tensor,
    rows: list[int],
    columns: list[int],
    kernel: list[int],
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Return an empty tensor in the shape of one element for each window."""
    size = (*values.shape[:2], len(rows) // kernel[0], len(columns) // kernel[1])
    return values.new_empty(size, dtype=dtype)
