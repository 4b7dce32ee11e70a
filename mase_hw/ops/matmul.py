"""Product of matrices (torch.matmul, `@`), of which one is constant: a linear layer.

`x W` is the layer with the weights `W^T`; `W x = (x^T W^T)^T` is one between transpositions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._constant_product import ConstantProduct, matrix_product, matrix_refusals


class Matmul(ConstantProduct):
    """`y = a b`."""

    name: ClassVar[str] = "matmul"
    targets: ClassVar[tuple[str, ...]] = (
        "aten.matmul.default",
        "aten.mm.default",
        "aten.bmm.default",
        "aten.mv.default",
    )
    operand_names: ClassVar[Mapping[str, str]] = {
        "self": "data_in_0",
        "other": "data_in_1",
        "mat2": "data_in_1",
        "vec": "data_in_1",
    }

    def refusals(self, call: Call) -> list[str]:
        """Return why there is no linear layer."""
        return matrix_refusals(call)

    def layer(self, call: Call, operands: Mapping[str, Any]) -> Any:
        """Return the linear layer."""
        return matrix_product(call, operands)

    def examples(self) -> list[Example]:
        """A constant on the right of rows, and on the left of columns."""
        right, left = example_values(5, 3, seed=1), example_values(3, 4, seed=1)
        return [
            (Apply(torch.matmul, right), (example_values(2, 4, 5),)),
            (Apply(lambda x, w: w @ x, left), (example_values(2, 4, 5),)),
        ]
