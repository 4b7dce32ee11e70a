"""Sum of a tensor and a product of matrices, `y = beta * c + alpha * (a b)` (torch.addmm).

With constant `b` and `c` it is a linear layer; with one constant factor, a linear layer and a sum;
of two streams, their product and a sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example, example_values
from mase_hw.ops.products._constant_product import (
    ConstantProduct,
    is_right,
    matrix_product,
    matrix_refusals,
)


class Addmm(ConstantProduct):
    """A product of matrices that is added to something."""

    name = "addmm"
    targets = ("aten.addmm.default", "aten.addmv.default", "aten.baddbmm.default")
    operand_names: Mapping[str, str] = {
        "self": "data_in_2",
        "mat1": "data_in_0",
        "mat": "data_in_0",
        "batch1": "data_in_0",
        "mat2": "data_in_1",
        "batch2": "data_in_1",
        "vec": "data_in_1",
    }

    def refusals(self, call: Call) -> list[str]:
        return matrix_refusals(call) if _factors(call) else []

    def layer(self, call: Call, operands: Mapping[str, Tensor]) -> Tensor:
        """Return the linear layer; what is added is its bias where it is one row."""
        alpha, beta = call.attributes["alpha"], call.attributes["beta"]
        if not _factors(call):
            product = aten.matmul.default(operands["data_in_0"], operands["data_in_1"])
            return aten.add.Tensor(_scaled(product, alpha), _scaled(operands["data_in_2"], beta))
        (constant,) = _factors(call)
        operands = {**operands, constant: _scaled(operands[constant], alpha)}
        added = _scaled(operands["data_in_2"], beta)
        columns, shape = call.result.shape[-1], call.operands["data_in_2"].shape
        is_row = "data_in_2" in call.constants and shape in ((columns,), (1, columns))
        if is_row and is_right(call) and len(call.operands["data_in_1"].shape) == 2:
            bias = added if len(shape) == 1 else aten.reshape.default(added, [columns])
            return matrix_product(call, operands, bias)
        return aten.add.Tensor(matrix_product(call, operands), added)

    def examples(self) -> list[Example]:
        weight, row = example_values(5, 3, seed=1), example_values(3, seed=2)
        streams = (example_values(2, 5), example_values(2, 3, seed=3))
        return [
            (Apply(lambda x, w, b: torch.addmm(b, x, w), weight, row), streams[:1]),
            (Apply(lambda x, y, w: torch.addmm(y, x, w, beta=2, alpha=0.5), weight), streams),
            example(
                lambda x, y, z: torch.baddbmm(z, x, y),
                (3, 2, 4),
                example_values(3, 4, 3),
                example_values(3, 2, 3),
            ),
        ]


def _factors(call: Call) -> set[str]:
    """Return which factors are constant."""
    return {"data_in_0", "data_in_1"} & set(call.constants)


def _scaled(value: object, factor: float) -> Any:
    return value if factor == 1 else aten.mul.Tensor(value, factor)
