"""Consecutive pieces of a tensor along a dimension (torch.split, chunk, tensor_split)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Call, Example, example
from mase_hw.ops._composite import Composite


class TensorSplit(Composite):
    """Each piece is a slice; its size is that of torch's own result."""

    name = "tensor_split"
    targets = (
        "aten.split.Tensor",
        "aten.split_with_sizes.default",
        "aten.chunk.default",
        "aten.tensor_split.sections",
        "aten.tensor_split.indices",
    )

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor]:
        data, dim = operands["data_in_0"], int(call.attributes["dim"])
        ends = list(accumulate(spec.shape[dim] for spec in call.results.values()))
        return [
            aten.slice.Tensor(data, dim, start, end)
            for start, end in zip([0, *ends[:-1]], ends, strict=True)
        ]

    def examples(self) -> list[Example]:
        """Rows, of which one piece is not used; lanes."""
        return [
            example(lambda x: x.split([1, 2, 2], 1)[1] + 1, (2, 5, 3)),
            example(lambda x: torch.mul(*x.chunk(2, -1)), (2, 2, 6)),
        ]
