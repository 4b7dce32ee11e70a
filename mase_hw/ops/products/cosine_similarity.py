"""Cosine of the angle between two vectors along a dimension (torch.cosine_similarity)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Call, Example, example
from mase_hw.ops._composite import Composite

# A least length that no row in a number format has, unless it is zero.
SMALL = 1e-6


class CosineSimilarity(Composite):
    """The sum of products, over both lengths, which are `eps` at least."""

    name = "cosine_similarity"
    targets = ("aten.cosine_similarity.default",)
    operand_names: Mapping[str, str] = {"x1": "data_in_0", "x2": "data_in_1"}

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        dims, eps = [int(call.attributes["dim"])], float(call.attributes["eps"])
        values = list(operands.values())
        shapes = [spec.shape for spec in call.operands.values()]
        if eps <= SMALL and all(dims[0] in (-1, len(shape) - 1) for shape in shapes):
            rows = [
                aten.rms_norm.default(value, [shape[-1]], None, eps * eps / shape[-1])
                for value, shape in zip(values, shapes, strict=True)
            ]
            return [aten.mean.dim(aten.mul.Tensor(*rows), [-1])]
        products = aten.sum.dim_IntList(aten.mul.Tensor(*values), dims)
        lengths = [
            aten.sqrt.default(aten.sum.dim_IntList(aten.square.default(value), dims))
            for value in values
        ]
        bounded = [aten.clamp.default(length, eps) for length in lengths]
        return [aten.div.Tensor(products, aten.mul.Tensor(*bounded))]

    def examples(self) -> list[Example]:
        return [example(lambda x, y: torch.cosine_similarity(x, y, -1), (2, 3, 5), (2, 3, 5))]
