"""Rows that are the same for every inference, as a stream (a constant that is expanded to a batch).

What takes a constant takes it without this. Elsewhere, as for learned queries of attention, one
element of an inference, times zero, begins each copy: `y = 0 x_0 + c`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example, example_values
from mase_hw.ops._composite import Composite
from mase_hw.ops._library import define
from mase_hw.ops._masking import Repeating


def _repeated(values: Tensor, like: Tensor) -> Tensor:
    return values.repeat(like.shape[0], *[1] * (values.dim() - 1))


define("rows_like(Tensor self, Tensor like) -> Tensor", _repeated)


class RowsLike(Composite, Repeating):
    """A constant for each row of a stream."""

    name = "rows_like"
    counted_argument = "like"
    targets = ("mase.rows_like.default",)
    operand_names: Mapping[str, str] = {"self": "data_in_0", "like": "data_in_1"}

    def problems(self, call: Call) -> list[str]:
        if list(call.constants) != ["data_in_0"]:
            return ["what it repeats for every row is computed; only constants are repeated"]
        return super().problems(call)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        if list(call.constants) != ["data_in_0"]:
            return None
        shape = call.operands["data_in_0"].shape
        flat = aten.reshape.default(
            operands["data_in_1"], [-1, call.operands["data_in_1"].elements]
        )
        zero = aten.mul.Tensor(aten.slice.Tensor(flat, 1, 0, 1), 0)
        zero = aten.reshape.default(zero, [-1, *[1] * len(shape)])
        constant, rows = operands["data_in_0"], call.operands["data_in_1"].shape[0]
        if rows > 1:
            # Those of one inference, as of heads that are merged with the batch.
            constant = aten.repeat.default(constant, [rows, *[1] * (len(shape) - 1)])
        repeated = aten.add.Tensor(zero, aten.unsqueeze.default(constant, 0))
        if call.result.dtype == "bool":
            repeated = aten.ne.Scalar(repeated, 0)
        return [aten.reshape.default(repeated, [-1, *shape[1:]])]

    def examples(self) -> list[Example]:
        attention = torch.nn.functional.scaled_dot_product_attention

        def looked_up(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
            heads = x.reshape(-1, 3, 4) * 2
            return heads.gather(-1, index.expand(heads.shape[0], -1, -1)).reshape(-1, 2, 3, 2)

        return [
            example(
                Apply(
                    lambda x, c: attention(c.expand(x.shape[0], -1, -1), x, x),
                    example_values(1, 2, 3),
                ),
                (2, 4, 3),
            ),
            example(
                Apply(
                    lambda x, c: torch.baddbmm(c, x, c.expand(x.shape[0], -1, -1)),
                    example_values(1, 3, 3),
                ),
                (2, 3, 3),
            ),
            example(Apply(looked_up, torch.tensor([[[0, 3], [2, 1], [1, 1]]])), (2, 2, 3, 4)),
        ]
