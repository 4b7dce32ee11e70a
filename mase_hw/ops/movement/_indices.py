"""Elements of a stream at constant indices, written with slices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor

from mase_hw._aten import aten


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
