"""Elements at constant places of two tensors, or sums of such (slice assignment, scatter, ...).

`y[i] = sum_k c[p[i, k]]`, where c holds the elements of the first tensor, those of the second, and
zero. Capture writes calls whose indices are constant so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example, example_values, torch_target
from mase_hw.ops._composite import composition
from mase_hw.ops._library import define
from mase_hw.ops.movement._indices import picked


def _placed(values: Tensor, others: Tensor, places: Tensor) -> Tensor:
    """Return the elements of every row; one row of either tensor is that of all rows."""
    parts = [values.flatten(1), others.flatten(1)]
    rows = next((part.shape[0] for part in parts if part.shape[0] != 1), 1)
    parts = [part.expand(rows, -1) for part in (*parts, torch.zeros_like(parts[0][:, :1]))]
    elements = torch.cat(parts, 1)[:, places]
    return elements.squeeze(-1) if places.shape[-1] == 1 else elements.sum(-1, dtype=elements.dtype)


define("placed(Tensor self, Tensor others, Tensor places) -> Tensor", _placed)


def _examples() -> list[Example]:
    """Columns that are replaced; sums of rows; elements of two dimensions; of a constant."""
    values, columns, rows = (
        example_values(2, 3, 4),
        torch.tensor([3, 0]),
        torch.tensor([0, 2, 2]),
    )
    index = torch.tensor([[[1, 0, 1]]])
    return [
        example(Apply(lambda x, i: x.index_copy(2, i, x[:, :, 1:3] * 2), columns), values),
        example(Apply(lambda x, i: x.index_add(1, i, x.flip(1)), rows), values),
        example(
            Apply(
                lambda x, c: torch.slice_scatter(c.expand(x.shape[0], 3, 5), x, 2, 1),
                example_values(1, 3, 5, seed=2),
            ),
            values,
        ),
        example(Apply(lambda x, i: x.scatter(1, i.expand(x.shape[0], 1, 3), 0.5), index), values),
    ]


@composition(
    "mase.placed.default",
    examples=_examples,
    operand_names={"self": "data_in_0", "others": "data_in_1", "places": "places"},
)
def placed(call: Call, data: Tensor, others: Tensor, _: Tensor) -> Tensor:
    """Slices of both tensors side by side, and their sum where several meet.

    They are along the one dimension that elements move in, else of whole rows.
    """
    places = call.constants["places"].long()
    shapes = [call.operands[name].shape for name in ("data_in_0", "data_in_1")]
    values = [data, others]
    rank, rows = len(call.result.shape), call.result.shape[0]
    for place, shape in enumerate(shapes):
        if shape[0] != rows:
            values[place] = aten.expand.default(values[place], [rows, *shape[1:]])
    for dim in range(1, rank):
        indices = _along(places, shapes, dim)
        if indices is not None:
            return _summed(call, values, shapes, dim, indices)
    flat = [
        aten.reshape.default(item, [-1, prod(shape[1:])])
        for item, shape in zip(values, shapes, strict=True)
    ]
    sizes = [(1, prod(shape[1:])) for shape in shapes]
    elements = _summed(call, flat, sizes, 1, places.flatten(0, -2))
    return aten.reshape.default(elements, [-1, *call.result.shape[1:]])


def _along(places: Tensor, shapes: Sequence[Sequence[int]], dim: int) -> Tensor | None:
    """Return the indices `[size, terms]` along a dimension; None where elements leave it.

    They count the first tensor's along it, then the second's; the one behind them is zero.
    """
    rest = [[*shape[:dim], *shape[dim + 1 :]] for shape in shapes]
    if (
        rest[0][1:] != rest[1][1:]
        or [*places.shape[: dim - 1], *places.shape[dim:-1]] != rest[0][1:]
    ):
        return None
    zero = sum(prod(shape[1:]) for shape in shapes)
    numbers = torch.arange(zero)
    first, second = numbers[: prod(shapes[0][1:])], numbers[prod(shapes[0][1:]) :]
    table = torch.cat(
        [first.reshape(shapes[0][1:]), second.reshape(shapes[1][1:])], dim - 1
    ).movedim(dim - 1, -1)
    table = torch.cat([table, torch.full_like(table[..., :1], zero)], -1)
    moved = places.movedim(dim - 1, -2)
    row = moved.reshape(-1, *moved.shape[-2:])[0]
    row_numbers = table.reshape(-1, table.shape[-1])[0]
    indices = torch.full_like(row, -1)
    for index, number in enumerate(row_numbers.tolist()):
        indices[row == number] = index
    if bool((indices < 0).any()):
        return None
    return indices if torch.equal(table[..., indices], moved) else None


def _summed(
    call: Call,
    values: Sequence[Tensor],
    shapes: Sequence[Sequence[int]],
    dim: int,
    indices: Tensor,
) -> Tensor:
    """Return elements along a dimension, summed where an index has several terms."""
    parts = list(_parts(call, values, shapes, dim, indices.flatten().tolist()))
    join = torch_target("mase.cat.default")
    joined = parts[0] if len(parts) == 1 else join(parts, dim)
    if indices.shape[1] == 1:
        return joined
    return aten.sum.dim_IntList(aten.unflatten.int(joined, dim, list(indices.shape)), [dim + 1])


def _parts(
    call: Call,
    values: Sequence[Tensor],
    shapes: Sequence[Sequence[int]],
    dim: int,
    indices: Sequence[int],
) -> Iterator[Tensor]:
    """Yield neighbours of one tensor at a time, and zeros."""
    first, second = (shape[dim] for shape in shapes)
    owners = [(index >= first) + (index >= first + second) for index in indices]
    ends = [place for place, (old, new) in enumerate(pairwise(owners), 1) if old != new]
    for start, end in pairwise([0, *ends, len(indices)]):
        owner = owners[start]
        if owner == 2:
            sizes = [call.result.shape[0], *shapes[0][1:]]
            sizes[dim] = end - start
            yield aten.full.default(sizes, 0, dtype=getattr(torch, call.result.dtype))
        else:
            yield picked(
                values[owner], dim, [index - owner * first for index in indices[start:end]]
            )
