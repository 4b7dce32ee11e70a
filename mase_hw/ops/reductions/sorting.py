"""Rows in order, and what stands at a place of the order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops.reductions._ranks import Ranked, at_places, dimension, reduced_shape


class Sort(Ranked):
    """The elements of short rows in their order, and their indices (torch.sort, torch.argsort)."""

    name = "sort"
    targets = ("aten.sort.default", "aten.sort.stable")

    def borders(self, call: Call) -> Sequence[int]:
        return () if call.attributes.get("stable") else super().borders(call)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Return all places of the order."""
        size = call.result.shape[dimension(call)]
        descending = bool(call.attributes.get("descending", False))
        return at_places(call, operands["data_in_0"], range(size), descending=descending)

    def examples(self) -> list[Example]:
        """Rows; another dimension, from the largest, with equal elements."""
        return [
            (Apply(lambda x: torch.sort(x).values), (example_values(2, 5),)),
            (
                Apply(lambda x: torch.sort(x.relu(), dim=1, descending=True, stable=True)[1]),
                (example_values(2, 4, 2),),
            ),
        ]


class Argsort(Ranked):
    """The indices that put short rows in their order (torch.argsort)."""

    name = "argsort"
    targets = ("aten.argsort.default", "aten.argsort.stable")

    def borders(self, call: Call) -> Sequence[int]:
        return () if call.attributes.get("stable") else super().borders(call)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Return the indices of all places of the order."""
        size = call.result.shape[dimension(call)]
        descending = bool(call.attributes.get("descending", False))
        found = at_places(call, operands["data_in_0"], range(size), descending=descending)
        return None if found is None else found[1:]

    def examples(self) -> list[Example]:
        return [(Apply(lambda x: torch.argsort(x, descending=True)), (example_values(2, 5),))]


class KthValue(Ranked):
    """The k-th smallest element of short rows, and its index (torch.kthvalue)."""

    name = "kthvalue"
    targets = ("aten.kthvalue.default",)

    def borders(self, call: Call) -> Sequence[int]:
        return [int(call.attributes["k"]) - 1, int(call.attributes["k"])]

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        place = int(call.attributes["k"]) - 1
        return reduced_shape(call, at_places(call, operands["data_in_0"], [place]))

    def examples(self) -> list[Example]:
        return [(Apply(lambda x: torch.kthvalue(x, 2)[0]), (example_values(2, 2, 5),))]


class Median(Ranked):
    """The middle element of short rows, and its index (torch.median): of two the smaller one."""

    name = "median"
    targets = ("aten.median.dim", "aten.nanmedian.dim")

    def borders(self, call: Call) -> Sequence[int]:
        middle = (call.operands["data_in_0"].shape[dimension(call)] - 1) // 2
        return [middle, middle + 1]

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        size = call.operands["data_in_0"].shape[dimension(call)]
        found = at_places(call, operands["data_in_0"], [(size - 1) // 2])
        return reduced_shape(call, found)

    def examples(self) -> list[Example]:
        """An odd and an even number of elements."""
        return [
            (Apply(lambda x: torch.median(x, -1)[0]), (example_values(2, 5),)),
            (Apply(lambda x: torch.median(x, 1, keepdim=True)[1]), (example_values(2, 4, 2),)),
        ]


class TopK(Ranked):
    """The largest or smallest elements of short rows, and their indices (torch.topk)."""

    name = "topk"
    targets = ("aten.topk.default",)

    def borders(self, call: Call) -> Sequence[int]:
        return [int(call.attributes["k"])]

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Return the first places of the order."""
        places = range(int(call.attributes["k"]))
        descending = bool(call.attributes.get("largest", True))
        return at_places(call, operands["data_in_0"], places, descending=descending)

    def examples(self) -> list[Example]:
        """Both results; the smallest along another dimension."""

        def both(x: Tensor) -> Any:
            return torch.topk(x, 2)

        return [
            (Apply(both), (example_values(2, 6),)),
            (Apply(lambda x: torch.topk(x, 1, 1, largest=False)[1]), (example_values(2, 3, 2),)),
        ]
