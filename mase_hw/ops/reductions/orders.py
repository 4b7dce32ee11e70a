"""Running results along a dimension, and elements of short rows in their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import OPERAND_NAMES, Call, Example, example
from mase_hw.ops._composite import Composition, composition, refuse_batch, zero_of
from mase_hw.ops._interfaces import Ranking


@composition(
    "aten.cumsum.default",
    examples=lambda: [
        example(lambda x: x.cumsum(-1), (2, 3, 5)),
        example(lambda x: x.cumsum(1), (2, 4, 2)),
    ],
    refusal=refuse_batch("it sums along", "name another dimension"),
)
def cumsum(call: Call, data: Tensor) -> Tensor:
    """Sums of all elements up to each (torch.cumsum), exact and rounded once.

    A linear layer with ones up to the diagonal; of whole numbers a running sum, which is not
    rounded.
    """
    dim, last = call.dimension(), len(call.result.shape) - 1
    data = data if dim == last else aten.transpose.int(data, dim, last)
    specs = (call.operands["data_in_0"], call.result)
    if all(spec.dtype.startswith(("float", "bfloat")) for spec in specs):
        size = call.result.shape[dim]
        sums = aten.linear.default(data, aten.tril.default(aten.ones.default([size, size])))
    else:
        sums = torch.ops.mase.running_sum.default(data)
    return sums if dim == last else aten.transpose.int(sums, dim, last)


_refuse_running = refuse_batch("it runs along", "name another dimension")
_NO_INDICES = "its indices are used; only its values have hardware"


def _running(call: Call, data: Tensor, join: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Return every element joined with all before it (Hillis and Steele, 1986).

    Elements are joined with those one, two, four, ... places before.
    """
    dim = call.dimension()
    size, step = call.result.shape[dim], 1
    while step < size:
        first = aten.slice.Tensor(data, dim, 0, step)
        joined = join(
            aten.slice.Tensor(data, dim, step, size),
            aten.slice.Tensor(data, dim, 0, size - step),
        )
        data = aten.cat.default([first, joined], dim)
        step *= 2
    return data


@composition(
    "aten.cumprod.default",
    examples=lambda: [example(lambda x: (x * 1.5).cumprod(-1), (2, 5))],
    refusal=_refuse_running,
)
def cumprod(call: Call, data: Tensor) -> Tensor:
    """Product of all elements up to each (torch.cumprod), each rounded."""
    return _running(call, data, aten.mul.Tensor)


@composition(
    "aten.cummax.default",
    examples=lambda: [
        example(lambda x: torch.cummax(x, -1)[0], (2, 5)),
        example(lambda x: torch.cummax(x, 1)[0], (2, 4, 2)),
    ],
    refusal=_refuse_running,
    left_out=_NO_INDICES,
)
def cummax(call: Call, data: Tensor) -> Tensor:
    """Largest of all elements up to each (torch.cummax)."""
    return _running(call, data, aten.maximum.default)


@composition(
    "aten.cummin.default",
    examples=lambda: [
        example(lambda x: torch.cummin(x, -1)[0], (2, 5)),
        example(lambda x: torch.cummin(x, 1)[0], (2, 4, 2)),
    ],
    refusal=_refuse_running,
    left_out=_NO_INDICES,
)
def cummin(call: Call, data: Tensor) -> Tensor:
    """Smallest of all elements up to each (torch.cummin)."""
    return _running(call, data, aten.minimum.default)


_refuse_order = refuse_batch("it orders along", "name another dimension")


class _Ordering(Composition, Ranking):
    """Elements of short rows in their order.

    Attributes:
        borders: places of the order before which equal elements leave indices open.
    """

    borders: Callable[[Call], Sequence[int]]

    def tied(self, call: Call, data: Tensor) -> Tensor:
        descending = bool(call.attributes.get("largest", call.attributes.get("descending", False)))
        ordered = data.sort(call.dimension(), descending=descending).values
        ordered = ordered.movedim(call.dimension(), -1)
        places = [place for place in self.borders(call) if 0 < place < ordered.shape[-1]]
        before = [place - 1 for place in places]
        equal: Tensor = ordered[..., places] == ordered[..., before]
        return equal.any(-1)


def _ordering(
    *targets: str, examples: Callable[[], list[Example]], borders: Callable[[Call], Sequence[int]]
) -> Callable[[Callable[..., Any]], _Ordering]:
    def operator(expression: Callable[..., Any]) -> _Ordering:
        ordering = _Ordering(expression, targets, examples, _refuse_order, OPERAND_NAMES, "")
        ordering.borders = borders
        return ordering

    return operator


def _size(call: Call) -> int:
    return call.operands["data_in_0"].shape[call.dimension()]


def _all_borders(call: Call) -> Sequence[int]:
    return () if call.attributes.get("stable") else range(1, _size(call))


def _around(place: int) -> Sequence[int]:
    return place, place + 1


def _ranked(
    call: Call, data: Tensor, places: Sequence[int], *, descending: bool = False
) -> list[Tensor]:
    """Return the elements at places of the order along a dimension, and their indices.

    Each is compared with every other one: n elements take n * n comparisons. The rank of an element
    is the number of those before it: smaller or larger ones, and of equal ones those that come
    first.
    """
    shape = call.operands["data_in_0"].shape
    dim, last = call.dimension(), len(shape) - 1
    data = data if dim == last else aten.transpose.int(data, dim, last)
    row, column = aten.unsqueeze.default(data, -2), aten.unsqueeze.default(data, -1)
    beyond, at_least = (aten.gt, aten.ge) if descending else (aten.lt, aten.le)
    earlier = torch.ones(shape[dim], shape[dim], dtype=torch.bool).tril(-1)
    equal = aten.logical_and.default(at_least.Tensor(row, column), earlier)
    before = aten.logical_or.default(beyond.Tensor(row, column), equal)
    ranks = aten.sum.dim_IntList(before, [-1])
    wanted = torch.tensor(list(places))[:, None]
    chosen = aten.eq.Tensor(aten.unsqueeze.default(ranks, -2), wanted)
    zero = zero_of(call.operands["data_in_0"])
    values = aten.sum.dim_IntList(aten.where.ScalarOther(chosen, row, zero), [-1])
    indices = aten.argmax.default(aten._to_copy.default(chosen, dtype=torch.float32), -1)
    if dim == last:
        return [values, indices]
    return [aten.transpose.int(item, dim, last) for item in (values, indices)]


def _at_place(call: Call, data: Tensor, place: int) -> list[Tensor]:
    """Return the element at one place, and its index, in the shape of the result."""
    shape = [-1, *call.result.shape[1:]]
    return [aten.reshape.default(item, shape) for item in _ranked(call, data, [place])]


def _sorted(call: Call, data: Tensor) -> list[Tensor]:
    descending = bool(call.attributes.get("descending", False))
    return _ranked(call, data, range(call.result.shape[call.dimension()]), descending=descending)


@_ordering(
    "aten.sort.default",
    "aten.sort.stable",
    examples=lambda: [
        example(lambda x: torch.sort(x).values, (2, 5)),
        example(lambda x: torch.sort(x.relu(), dim=1, descending=True, stable=True)[1], (2, 4, 2)),
    ],
    borders=_all_borders,
)
def sort(call: Call, data: Tensor) -> list[Tensor]:
    """Elements of short rows in their order, and their indices (torch.sort)."""
    return _sorted(call, data)


@_ordering(
    "aten.argsort.default",
    "aten.argsort.stable",
    examples=lambda: [example(lambda x: torch.argsort(x, descending=True), (2, 5))],
    borders=_all_borders,
)
def argsort(call: Call, data: Tensor) -> Tensor:
    """Indices that put short rows in their order (torch.argsort)."""
    return _sorted(call, data)[1]


@_ordering(
    "aten.kthvalue.default",
    examples=lambda: [example(lambda x: torch.kthvalue(x, 2)[0], (2, 2, 5))],
    borders=lambda call: _around(int(call.attributes["k"]) - 1),
)
def kthvalue(call: Call, data: Tensor) -> list[Tensor]:
    """The k-th smallest element of short rows, and its index (torch.kthvalue)."""
    return _at_place(call, data, int(call.attributes["k"]) - 1)


@_ordering(
    "aten.median.dim",
    "aten.nanmedian.dim",
    examples=lambda: [
        example(lambda x: torch.median(x, -1)[0], (2, 5)),
        example(lambda x: torch.median(x, 1, keepdim=True)[1], (2, 4, 2)),
    ],
    borders=lambda call: _around((_size(call) - 1) // 2),
)
def median(call: Call, data: Tensor) -> list[Tensor]:
    """Middle element of short rows, and its index (torch.median): of two the smaller one."""
    return _at_place(call, data, (_size(call) - 1) // 2)


@_ordering(
    "aten.topk.default",
    examples=lambda: [
        example(lambda x: torch.topk(x, 2), (2, 6)),
        example(lambda x: torch.topk(x, 1, 1, largest=False)[1], (2, 3, 2)),
    ],
    borders=lambda call: [int(call.attributes["k"])],
)
def topk(call: Call, data: Tensor) -> list[Tensor]:
    """Largest or smallest elements of short rows, and their indices (torch.topk)."""
    places = range(int(call.attributes["k"]))
    return _ranked(call, data, places, descending=bool(call.attributes.get("largest", True)))
