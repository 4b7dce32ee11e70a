"""Elements written to, or added at, places along a dimension that stream.

Every index is compared with every place: short rows are meant. An index that is no place writes
nothing. Constant indices are `mase.placed`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Call, along_batch, example
from mase_hw.ops._composite import composition, zero_of

_OPERANDS = {"self": "data_in_0", "index": "data_in_1", "src": "data_in_2"}


def _refusal(call: Call) -> list[str]:
    data, index = (call.operands[name].shape for name in ("data_in_0", "data_in_1"))
    dim = call.dimension()
    if dim == 0:
        return [along_batch("it writes along", "name another dimension")]
    if any(data[place] != index[place] for place in range(1, len(data)) if place != dim):
        return [f"its indices {list(index)} are fewer than its elements {list(data)}"]
    if "data_in_0" in call.constants and not bool(call.constants["data_in_0"].isfinite().all()):
        return ["it writes to numbers that are not finite; give the least number that counts"]
    if call.attributes.get("reduce", "sum") not in ("sum", "amax", "amin"):
        return [f"it reduces by {call.attributes['reduce']}; allowed are sum, amax and amin"]
    return []


def _hits(call: Call, index: Tensor) -> Tensor:
    """Whether an index, along the last dimension, is the place along the one before."""
    dim, last = call.dimension(), len(call.result.shape) - 1
    index = index if dim == last else aten.transpose.int(index, dim, last)
    places = torch.arange(call.result.shape[dim])[:, None]
    return aten.eq.Tensor(aten.unsqueeze.default(index, -2), places)


def _row(call: Call, source: Tensor) -> Tensor:
    """Source elements that are written, along the last dimension, for all places."""
    dim, shape = call.dimension(), call.operands["data_in_1"].shape
    last = len(shape) - 1
    for place, size in enumerate(shape[1:], 1):
        if call.operands["data_in_2"].shape[place] != size:
            source = aten.slice.Tensor(source, place, 0, size)
    source = source if dim == last else aten.transpose.int(source, dim, last)
    return aten.unsqueeze.default(source, -2)


def _summed(call: Call, hits: Tensor, row: Tensor) -> Tensor:
    """Sum of the source elements that are written to each place."""
    elements = aten.where.ScalarOther(hits, row, zero_of(call.result))
    return _back(call, aten.sum.dim_IntList(elements, [-1]))


def _back(call: Call, values: Tensor) -> Tensor:
    dim, last = call.dimension(), len(call.result.shape) - 1
    return values if dim == last else aten.transpose.int(values, dim, last)


def _places(count: int, *shape: int) -> Tensor:
    """Places that differ along the last dimension, in another order in each row."""
    generator = torch.Generator().manual_seed(0)
    return torch.rand(*shape, count, generator=generator).argsort(-1)


@composition(
    "aten.scatter_add.default",
    examples=lambda: [
        example(
            lambda x, i, y: x.scatter_add(-1, i % 4, y), (2, 3, 5), _places(5, 2, 3), (2, 3, 5)
        ),
    ],
    refusal=_refusal,
    operand_names=_OPERANDS,
)
def scatter_add(call: Call, data: Tensor, index: Tensor, source: Tensor) -> Tensor:
    """A tensor with elements added at indices that stream (torch.scatter_add)."""
    return aten.add.Tensor(data, _summed(call, _hits(call, index), _row(call, source)))


@composition(
    "aten.scatter.src",
    "aten.scatter.value",
    examples=lambda: [
        example(
            lambda x, i, y: x.scatter(1, i.mT % 4, y),
            (2, 5, 3),
            _places(5, 2, 3)[..., :4],
            (2, 5, 3),
        ),
        example(lambda x: torch.zeros_like(x).scatter(1, x.topk(2)[1], 1.0), (2, 5)),
    ],
    refusal=_refusal,
    operand_names=_OPERANDS,
)
def scatter(call: Call, data: Tensor, index: Tensor, *source: Tensor) -> Tensor:
    """A tensor with elements written at indices that stream (torch.scatter): the last one stays."""
    hits = _hits(call, index)
    count = call.operands["data_in_1"].shape[call.dimension()]
    number = aten.where.ScalarOther(hits, torch.arange(1, count + 1), 0)
    last = aten.amax.default(number, [-1])
    written = _back(call, aten.gt.Scalar(last, 0))
    if not source:
        return aten.where.ScalarSelf(written, call.attributes["value"], data)
    stays = aten.logical_and.default(hits, aten.eq.Tensor(number, aten.unsqueeze.default(last, -1)))
    return aten.where.self(written, _summed(call, stays, _row(call, source[0])), data)


@composition(
    "aten.scatter_reduce.two",
    examples=lambda: [
        example(
            lambda x, i, y: x.scatter_reduce(1, i % 4, y, "amax"), (2, 5), _places(5, 2), (2, 5)
        ),
        example(
            lambda x, i, y: x.scatter_reduce(1, i % 4, y, "amin", include_self=False),
            *((2, 5), _places(5, 2), (2, 5)),
        ),
        example(
            lambda x, i, y: x.scatter_reduce(1, i % 4, y, "sum", include_self=False),
            *((2, 5), _places(5, 2), (2, 5)),
        ),
    ],
    refusal=_refusal,
    operand_names=_OPERANDS,
)
def scatter_reduce(call: Call, data: Tensor, index: Tensor, source: Tensor) -> Tensor:
    """Sum, largest or smallest of what is written to each place (torch.scatter_reduce)."""
    hits, row, kind = _hits(call, index), _row(call, source), call.attributes["reduce"]
    if kind == "sum":
        reduced, both = _summed(call, hits, row), aten.add.Tensor
    else:
        largest = kind == "amax"
        least, most = (aten.amin, aten.amax) if largest else (aten.amax, aten.amin)
        # What is not written to a place cannot win there.
        elements = aten.where.self(hits, row, least.default(row, [-1], True))
        reduced = _back(call, most.default(elements, [-1]))
        both = (aten.maximum if largest else aten.minimum).default
    included = call.attributes.get("include_self", True)
    written = _back(call, aten.any.dim(hits, -1))
    return aten.where.self(written, both(data, reduced) if included else reduced, data)
