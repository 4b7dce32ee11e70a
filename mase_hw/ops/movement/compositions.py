"""Movements that are written with others."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor
from torch.nn.functional import one_hot as torch_one_hot

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, along_batch, example, torch_target
from mase_hw.ops._composite import composition, refuse_batch, zero_of
from mase_hw.ops._library import define
from mase_hw.ops.movement._indices import picked


def _refuse_diagonal(call: Call) -> list[str]:
    if 0 in (call.dimension("dim1"), call.dimension("dim2")):
        return [along_batch("it takes", "name dim1 and dim2")]
    return []


@composition(
    "aten.diagonal.default",
    examples=lambda: [
        example(lambda x: x.diagonal(dim1=1, dim2=2), (2, 3, 4)),
        example(lambda x: x.diagonal(-1, 1, 2), (2, 4, 3)),
        example(lambda x: x.diagonal(1, 3, 1), (2, 3, 2, 4)),
    ],
    refusal=_refuse_diagonal,
)
def diagonal(call: Call, data: Tensor) -> Tensor:
    """Diagonal of two dimensions, which becomes the last one (torch.diagonal).

    The two dimensions become one, of which every so many elements stay.
    """
    shape = call.operands["data_in_0"].shape
    first, second = call.dimension("dim1"), call.dimension("dim2")
    offset, rows, columns = int(call.attributes["offset"]), shape[first], shape[second]
    others = [dim for dim in range(len(shape)) if dim not in (first, second)]
    if [*others, first, second] != list(range(len(shape))):
        data = aten.permute.default(data, [*others, first, second])
    kept = [shape[dim] for dim in others]
    data = aten.reshape.default(data, [-1, *kept[1:], rows * columns])
    start = offset if offset >= 0 else -offset * columns
    end = start + (call.result.shape[-1] - 1) * (columns + 1) + 1
    return aten.slice.Tensor(data, len(others), start, end, columns + 1)


def _refuse_indices(call: Call) -> list[str]:
    data, index = (call.operands[name].shape for name in ("data_in_0", "data_in_1"))
    dim = call.dimension()
    if dim == 0:
        return [along_batch("it selects along", "name another dimension")]
    if any(data[place] != index[place] for place in range(1, len(data)) if place != dim):
        return [f"its indices {list(index)} are fewer than its elements {list(data)}"]
    return []


@composition(
    "aten.gather.default",
    examples=lambda: [
        example(lambda x, i: torch.gather(x, -1, i), (2, 3, 5), _gathered()[0]),
        example(lambda x, i: torch.gather(x, 1, i), (2, 3, 2), _gathered()[1]),
    ],
    refusal=_refuse_indices,
    operand_names={"self": "data_in_0", "index": "data_in_1"},
)
def gather(call: Call, data: Tensor, index: Tensor) -> Tensor:
    """Elements along a dimension at indices that stream (torch.gather).

    Every index is compared with every place, and the chosen elements are summed: short rows are
    meant. An index that is no place gives 0.
    """
    shape = call.operands["data_in_0"].shape
    dim, last = call.dimension(), len(shape) - 1
    if dim != last:
        data, index = (aten.transpose.int(item, dim, last) for item in (data, index))
    places = torch.arange(shape[dim])
    chosen = aten.eq.Tensor(aten.unsqueeze.default(index, -1), places)
    row = aten.unsqueeze.default(data, -2)
    zero = zero_of(call.result)
    elements = aten.sum.dim_IntList(aten.where.ScalarOther(chosen, row, zero), [-1])
    return elements if dim == last else aten.transpose.int(elements, dim, last)


def _gathered() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(0, 5, (2, 3, 2), generator=generator)
    return rows, torch.randint(0, 3, (2, 4, 2), generator=generator)


def _refuse_selection(call: Call) -> list[str]:
    if "index" not in call.constants:
        return ["its indices are computed; only constant ones select elements of a stream"]
    return refuse_batch("it selects along", "name another dimension")(call)


@composition(
    "aten.index_select.default",
    examples=lambda: [
        example(
            Apply(lambda x, index: x.index_select(-1, index), torch.tensor([0, 2, 4, 1])), (2, 5)
        ),
        example(
            Apply(lambda x, index: x.index_select(1, index), torch.tensor([2, 1, 0, 2])), (2, 3, 4)
        ),
    ],
    refusal=_refuse_selection,
)
def index_select(call: Call, data: Tensor, index: Tensor) -> Tensor:
    """Elements at constant indices along a dimension (torch.index_select)."""
    indices = [int(item) for item in call.constants["index"].flatten()]
    return picked(data, call.dimension(), indices)


@composition(
    "aten.mT.default", "aten.t.default", examples=lambda: [example(lambda x: x.mT, (2, 4, 5))]
)
def matrix_transpose(call: Call, data: Tensor) -> Tensor:
    """The last two dimensions exchanged (`x.mT`, torch.t)."""
    if len(call.result.shape) < 2:
        return aten.alias.default(data)
    return aten.transpose.int(data, -2, -1)


def _refuse_classes(call: Call) -> list[str]:
    if int(call.attributes.get("num_classes", -1)) < 0:
        return ["its number of classes depends on the data: give it num_classes"]
    return []


@composition(
    "aten.one_hot.default",
    examples=lambda: [
        example(
            lambda x: torch_one_hot(x, 5).float() * 0.5,
            torch.randint(0, 5, (2, 3), generator=torch.Generator().manual_seed(0)),
        )
    ],
    refusal=_refuse_classes,
)
def one_hot(call: Call, data: Tensor) -> Tensor:
    """A one at the place of a whole number (F.one_hot), zeros alone for what is no place."""
    places = torch.arange(int(call.attributes["num_classes"]))
    ones = aten.eq.Tensor(aten.unsqueeze.default(data, -1), places)
    return aten._to_copy.default(ones, dtype=torch.int64)


@composition(
    "aten.repeat.default",
    "aten.tile.default",
    examples=lambda: [
        example(lambda x: x.repeat(1, 2, 1), (2, 2, 3)),
        example(lambda x: x.repeat(1, 3), (2, 3)),
    ],
)
def repeat(call: Call, data: Tensor) -> Tensor:
    """Copies of a tensor one after another along its dimensions (torch.Tensor.repeat, torch.tile).

    A dimension of size `s` repeated `r` times is `[s]` expanded to `[r, s]` and joined, the
    innermost first.
    """
    shape, rank = call.operands["data_in_0"].shape, len(call.result.shape)
    repeats = [int(n) for n in call.attributes.get("repeats", call.attributes.get("dims"))]
    repeats = [1] * (rank - len(repeats)) + repeats
    kept = [1] * (rank - len(shape)) + list(shape)
    copies = data
    if len(shape) < rank:
        copies = aten.view.default(copies, kept)
    for dim in reversed(range(rank)):
        if repeats[dim] > 1:
            sizes = [-1] * (rank + 1)
            sizes[dim] = repeats[dim]
            kept[dim] *= repeats[dim]
            copies = aten.expand.default(aten.unsqueeze.default(copies, dim), sizes)
            copies = aten.reshape.default(copies, [-1, *kept[1:]])
    return aten.alias.default(data) if copies is data else copies


def _stacked(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    count = max(len(tensor) for tensor in tensors)
    return torch.stack([tensor.expand(count, *tensor.shape[1:]) for tensor in tensors], dim)


define("stack(Tensor[] tensors, int dim=0) -> Tensor", _stacked)


@composition(
    "aten.stack.default",
    "mase.stack.default",
    examples=lambda: [
        example(lambda x, y, z: torch.stack([x, y, z], 1), (2, 3), (2, 3), (2, 3)),
        example(lambda x, y: torch.stack([x, y], -1), (2, 3), (2, 3)),
        example(lambda x: torch.stack([torch.ones_like(x), x], 1), (2, 3)),
    ],
)
def stack(call: Call, *tensors: Tensor) -> Tensor:
    """Tensors side by side along a new dimension (torch.stack), which each is given and joined."""
    shapes = [spec.shape for spec in call.operands.values()]
    rows, dim = max(shape[:1] for shape in shapes), int(call.attributes["dim"])
    parts = []
    for tensor, shape in zip(tensors, shapes, strict=True):
        whole = tensor if shape[:1] == rows else aten.expand.default(tensor, [*rows, *shape[1:]])
        parts.append(aten.unsqueeze.default(whole, dim))
    return torch_target("mase.cat.default")(parts, dim)


@composition(
    "aten.split.Tensor",
    "aten.split_with_sizes.default",
    "aten.chunk.default",
    "aten.tensor_split.sections",
    "aten.tensor_split.indices",
    examples=lambda: [
        example(lambda x: x.split([1, 2, 2], 1)[1] + 1, (2, 5, 3)),
        example(lambda x: torch.mul(*x.chunk(2, -1)), (2, 2, 6)),
    ],
)
def tensor_split(call: Call, data: Tensor) -> list[Tensor]:
    """Consecutive pieces of a tensor along a dimension (torch.split, chunk, tensor_split)."""
    dim = int(call.attributes["dim"])
    ends = list(accumulate(spec.shape[dim] for spec in call.results.values()))
    return [
        aten.slice.Tensor(data, dim, start, end)
        for start, end in zip([0, *ends[:-1]], ends, strict=True)
    ]


@composition(
    "aten.unbind.int",
    examples=lambda: [example(lambda x: functools.reduce(torch.add, x.unbind(1)), (2, 3, 4))],
)
def unbind(call: Call, data: Tensor) -> list[Tensor]:
    """The elements of a tensor along a dimension, which goes (torch.unbind)."""
    dim = int(call.attributes["dim"])
    return [aten.select.int(data, dim, index) for index in range(len(call.results))]
