"""Elements at constant indices of some dimensions (`x[:, index]`, torch.index)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, along_batch, example
from mase_hw.ops._composite import composition
from mase_hw.ops.movement._indices import picked


def _refusal(call: Call) -> list[str]:
    """Obstacles between a selection and slices."""
    if "data_in_0" in call.constants:
        return (
            []
            if _dims(call) == [0] and (_is_real(call) or _is_uniform(call))
            else [
                "its indices are computed: only rows of a table of real numbers, or of whole "
                "numbers that are all alike, x[index]"
            ]
        )
    if len(call.streams) > 1:
        return ["its indices are computed: use x[rows, index], gather, or torch.where under a mask"]
    dims = _dims(call)
    if 0 in dims:
        return [along_batch("it selects along", "name the others, x[:, index]")]
    if dims != list(range(dims[0], dims[0] + len(dims))):
        return [f"it indexes dimensions {dims}, which do not lie side by side; select in steps"]
    return []


@composition(
    "aten.index.Tensor",
    examples=lambda: [
        example(Apply(lambda x, i: x[:, :, i], torch.tensor([4, 2, 0, 0])), (2, 2, 5)),
        example(
            Apply(lambda x, kept: x[:, kept], torch.tensor([True, True, False, False])), (2, 4, 3)
        ),
        example(
            Apply(lambda x, r, c: x[:, r, c], torch.tensor([0, 2, 1]), torch.tensor([1, 0, 3])),
            (2, 3, 4),
        ),
    ],
    refusal=_refusal,
)
def index(call: Call, data: Tensor, *indices: Tensor) -> Tensor:
    """Indexed dimensions that lie side by side become one, of which elements are selected."""
    if "data_in_0" in call.constants:
        return _looked_up(call, data, *indices)
    dims = _dims(call)
    shape = call.operands["data_in_0"].shape
    sizes, first = [shape[dim] for dim in dims], dims[0]
    if len(dims) > 1:
        data = aten.reshape.default(
            data, [-1, *shape[1:first], prod(sizes), *shape[dims[-1] + 1 :]]
        )
    elements = picked(data, first, _linear(call, sizes).flatten().tolist())
    return aten.reshape.default(elements, [-1, *call.result.shape[1:]])


def _is_real(call: Call) -> bool:
    return call.operands["data_in_0"].dtype.startswith(("float", "bfloat"))


def _is_uniform(call: Call) -> bool:
    """True if all rows of a constant are the same."""
    table = call.constants["data_in_0"]
    return bool((table == table[:1]).all())


def _looked_up(call: Call, data: Tensor, indices: Tensor) -> Tensor:
    """Return rows of a constant at indices that are computed."""
    table, rows = call.constants["data_in_0"], call.operands["data_in_0"].shape
    shape = call.result.shape[1:]
    if _is_uniform(call):
        ones = [1] * len(list(call.operands.values())[1].shape)
        row = aten.slice.Tensor(data, 0, 0, 1)
        return aten.expand.default(aten.reshape.default(row, [*ones, *rows[1:]]), [1, *shape])
    flat = aten.reshape.default(data, [rows[0], table[0].numel()])
    return aten.reshape.default(aten.embedding.default(flat, indices), [-1, *shape])


def _dims(call: Call) -> list[int]:
    """Return the dimensions that are indexed; a mask counts for each of its own."""
    count = len(call.operands) - 1
    places = call.attributes.get("indices") or (True,) * count
    names = iter(name for name in call.operands if name != "data_in_0")
    dims: list[int] = []
    dim = 0
    for is_given in places:
        spec = call.operands[next(names)] if is_given else None
        wide = len(spec.shape) if spec is not None and spec.dtype == "bool" else 1
        dims += list(range(dim, dim + wide)) if is_given else []
        dim += wide
    return dims


def _linear(call: Call, sizes: Sequence[int]) -> Tensor:
    """Return indices into the indexed dimensions as one."""
    listed: list[Tensor] = []
    for name, value in call.constants.items():
        mask = call.operands[name].dtype == "bool"
        listed += value.bool().nonzero(as_tuple=True) if mask else [value.long()]
    linear = torch.zeros_like(listed[0])
    for item, size in zip(listed, sizes, strict=True):
        linear = linear * size + item % size
    return linear
