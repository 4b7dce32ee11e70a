"""Where the batch of example inputs may be, and whether a model computes its rows by themselves.

The leading dimension is tried first, by capturing the model so. Else the model itself is run: its
result for one row must be a row of its result for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from mase_hw.graph.exported import tensors_of

Dims = tuple[int | None, ...]
_TOLERANCE = 1e-4


def leading(leaves: Sequence[Tensor], size: int) -> Dims:
    """Return the first dimension of each input that has as many rows."""
    return tuple(0 if leaf.dim() and leaf.shape[0] == size else None for leaf in leaves)


def other_guesses(
    leaves: Sequence[Tensor], run: Callable[[Sequence[Tensor]], object]
) -> Iterator[Dims]:
    """Yield further guesses, with the batch in the second dimension of one input at least.

    Args:
        leaves: the example inputs.
        run: returns the model's outputs for such inputs.
    """
    seen = set()
    for size in dict.fromkeys(size for leaf in leaves for size in leaf.shape[:2]):
        for order in ((0, 1), (1, 0)):
            dims = tuple(_dim(leaf, size, order) for leaf in leaves)
            if 1 in dims and dims not in seen and is_batch(leaves, dims, run):
                yield dims
            seen.add(dims)


def _dim(leaf: Tensor, size: int, order: Sequence[int]) -> int | None:
    """Return the first of two dimensions that has a size, of a sequence, an image or indices."""
    ordered = leaf.dim() > 2 or (leaf.dim() == 2 and not leaf.is_floating_point())
    legal = [dim for dim in order if dim < leaf.dim() and (dim == 0 or ordered)]
    return next((dim for dim in legal if leaf.shape[dim] == size), None)


def is_batch(
    leaves: Sequence[Tensor], dims: Dims, run: Callable[[Sequence[Tensor]], object]
) -> bool:
    """True if each row of random inputs gives a row of what all of them give."""
    generator = torch.Generator().manual_seed(0)
    random_rows = [_rows(leaf, dim, generator) for leaf, dim in zip(leaves, dims, strict=True)]
    try:
        together = tensors_of(run(random_rows))
        return all(
            _has_row(together, tensors_of(run(_row(random_rows, dims, row))), row)
            for row in range(_ROWS)
        )
    except Exception:
        # It does not run on another number of rows, or on other numbers.
        return False


_ROWS = 3


def _rows(leaf: Tensor, dim: int | None, generator: torch.Generator) -> Tensor:
    if dim is None:
        return leaf
    rows = leaf.index_select(dim, torch.arange(_ROWS) % leaf.shape[dim])
    if not leaf.is_floating_point():
        return rows
    return torch.randn(rows.shape, generator=generator).to(leaf)


def _row(leaves: Sequence[Tensor], dims: Dims, row: int) -> list[Tensor]:
    return [
        leaf if dim is None else leaf.narrow(dim, row, 1)
        for leaf, dim in zip(leaves, dims, strict=True)
    ]


def _has_row(together: Sequence[Tensor], alone: Sequence[Tensor], row: int) -> bool:
    """True if results of one row are a row of all results, in the one dimension that it is.

    Something must depend on the rows.
    """
    counted = [_counted(every, one) for every, one in zip(together, alone, strict=True)]
    return any(dim is not None for dim in counted) and all(
        every.shape == one.shape
        if dim is None
        else torch.allclose(
            every.narrow(dim, row, 1).double(), one.double(), _TOLERANCE, _TOLERANCE, equal_nan=True
        )
        for every, one, dim in zip(together, alone, counted, strict=True)
    )


def _counted(every: Tensor, one: Tensor) -> int | None:
    if every.dim() != one.dim():
        return None
    differs = [dim for dim in range(one.dim()) if every.shape[dim] != one.shape[dim]]
    return differs[0] if len(differs) == 1 and every.shape[differs[0]] == _ROWS else None
