"""Elements of a row in their order: each is compared with every other one.

The rank of an element is the number of those before it: smaller ones, or larger ones, and of equal
ones those that come first. A row of n elements takes n * n comparisons: short rows are meant.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Call, along_batch
from mase_hw.ops._composite import Composite
from mase_hw.ops._judging import Ranking


class Ranked(Composite, Ranking):
    """Elements at some places of the order, and their indices."""

    def borders(self, call: Call) -> Sequence[int]:
        """Return the places of the order before which equal elements leave indices open."""
        return range(1, call.operands["data_in_0"].shape[dimension(call)])

    def tied(self, call: Call, data: Tensor) -> Tensor:
        descending = bool(call.attributes.get("largest", call.attributes.get("descending", False)))
        ordered = data.sort(dimension(call), descending=descending).values
        ordered = ordered.movedim(dimension(call), -1)
        places = [place for place in self.borders(call) if 0 < place < ordered.shape[-1]]
        before = [place - 1 for place in places]
        equal: Tensor = ordered[..., places] == ordered[..., before]
        return equal.any(-1)

    def problems(self, call: Call) -> list[str]:
        """Refuse to order inferences, and what comes without order."""
        if dimension(call) == 0:
            return [along_batch("it orders along", "name another dimension")]
        return super().problems(call)


def dimension(call: Call) -> int:
    """Return the ordered dimension, counted from the front."""
    rank = max(1, len(call.operands["data_in_0"].shape))
    return int(call.attributes.get("dim", -1)) % rank


def at_places(
    call: Call, data: Tensor, places: Sequence[int], *, descending: bool = False, kept: bool = True
) -> list[Tensor] | None:
    """Return the elements at places of the order along a dimension, and their indices.

    Args:
        call: names the dimension.
        data: what records calls on the tensor.
        places: counted from the first of the order.
        descending: whether the largest is first.
        kept: whether the dimension stays, of as many elements as places.
    """
    dim, shape = dimension(call), call.operands["data_in_0"].shape
    if dim == 0:
        return None
    last, size = len(shape) - 1, shape[dim]
    data = data if dim == last else aten.transpose.int(data, dim, last)
    row, column = aten.unsqueeze.default(data, -2), aten.unsqueeze.default(data, -1)
    beyond, at_least = (aten.gt, aten.ge) if descending else (aten.lt, aten.le)
    earlier = torch.ones(size, size, dtype=torch.bool).tril(-1)
    equal = aten.logical_and.default(at_least.Tensor(row, column), earlier)
    before = aten.logical_or.default(beyond.Tensor(row, column), equal)
    ranks = aten.sum.dim_IntList(before, [-1])
    wanted = torch.tensor(list(places))[:, None]
    chosen = aten.eq.Tensor(aten.unsqueeze.default(ranks, -2), wanted)
    values = aten.sum.dim_IntList(aten.where.ScalarOther(chosen, row, 0.0), [-1])
    indices = aten.argmax.default(aten._to_copy.default(chosen, dtype=torch.float32), -1)
    found = []
    for item in (values, indices):
        if not kept:
            item = aten.squeeze.dim(item, -1)
        elif dim != last:
            item = aten.transpose.int(item, dim, last)
        found.append(item)
    return found


def reduced_shape(call: Call, found: list[Tensor] | None) -> list[Tensor] | None:
    """Return results in the shape of the call's."""
    if found is None:
        return None
    return [aten.reshape.default(item, [-1, *call.result.shape[1:]]) for item in found]
