"""Product of matrices (torch.matmul, `@`), of two streams or of a stream and a constant.

Two streams are multiplied in fixed point, exactly, and rounded once: see `_stream_product`. With a
constant it is a linear layer: `x W` is the layer with the weights `W^T`, and `W x = (x^T W^T)^T` is
one between transpositions. A constant that has a matrix for each head is a layer for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw.cells import Netlist
from mase_hw.formats import Format
from mase_hw.geometry.tensor import Order
from mase_hw.ops._base import Apply, Call, Example, Operator, Reference, example, example_values
from mase_hw.ops._interfaces import Exact, Growing, Judged, Multiplying, Ordered, Rewritten, Tiled
from mase_hw.ops.products._constant_product import matrix_product, matrix_refusals
from mase_hw.ops.products._stream_product import StreamProduct

_aten = torch.ops.aten


class Matmul(Operator, Exact, Multiplying, Rewritten, Ordered, Tiled, Growing, Judged):
    """`y = a b`."""

    channel_axis = -1
    name = "matmul"
    targets = ("aten.matmul.default", "aten.mm.default", "aten.bmm.default", "aten.mv.default")
    exact_everywhere = False
    weighs = True
    operand_names: Mapping[str, str] = {
        "self": "data_in_0",
        "other": "data_in_1",
        "mat2": "data_in_1",
        "vec": "data_in_1",
    }

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        if not call.constants:
            return _batch_of_one(call, operands["data_in_0"], operands["data_in_1"])
        return None if matrix_refusals(call) else [matrix_product(call, operands)]

    def problems(self, call: Call) -> list[str]:
        if call.constants:
            return matrix_refusals(call) or [
                f"{self.name} is no hardware yet: run decompose_transform_pass first"
            ]
        return super().problems(call) or StreamProduct(call).problems()

    def reference(self, call: Call) -> Reference:
        return StreamProduct(call).reference()

    def hardware(self, call: Call) -> Netlist:
        return StreamProduct(call).hardware()

    def exact_result(self, call: Call, fraction: int) -> Format | None:
        return StreamProduct(call).exact_result()

    def products(self, call: Call) -> int:
        return StreamProduct(call).terms

    def orders(self, call: Call) -> dict[str, Order | None]:
        return StreamProduct(call).orders()

    def ties(self, call: Call) -> list[list[tuple[str, int]]]:
        """Rows enter and leave together; elements and columns are free."""
        return [[("data_in_0", 1), ("data_out_0", 1)]]

    def growing(self, call: Call) -> list[frozenset[str]]:
        return [] if call.constants else StreamProduct.growing()

    def limits(self, call: Call) -> dict[tuple[str, int], int]:
        if StreamProduct(call).has_row_tiles:
            return {}
        return {("data_in_0", 1): 1, ("data_out_0", 1): 1}

    def operations(self, call: Call) -> int:
        return 2 * call.result.elements * call.operands["data_in_0"].shape[-1]

    def examples(self) -> list[Example]:
        right, left = example_values(5, 3, seed=1), example_values(3, 4, seed=1)
        rows, keys = example_values(3, 4, 5), example_values(3, 6, 5, seed=1)
        heads, shared = example_values(3, 2, 2, 3, 4), example_values(3, 2, 1, 4, 3, seed=1)
        matrices = example_values(2, 5, 3, seed=1)
        tokens = example_values(3, 3, 2, 4), example_values(3, 4, 2, 4, seed=1)
        return [
            example(lambda x, y: x @ y.transpose(-1, -2), rows, keys),
            example(torch.matmul, heads, shared),
            (
                Apply(lambda q, k: q.transpose(1, 2) @ k.permute(0, 2, 3, 1)),
                tokens,
            ),
            example(Apply(torch.matmul, right), (2, 4, 5)),
            example(Apply(lambda x, w: w @ x, left), (2, 4, 5)),
            example(Apply(torch.matmul, matrices), (3, 2, 4, 5)),
            example(Apply(lambda x, w: w.mT @ x, matrices), (3, 2, 5, 4)),
        ]


def _batch_of_one(call: Call, left: Tensor, right: Tensor) -> list[Tensor] | None:
    """Return the product of two streams that have no dimension before those of matrices.

    Of rows that are a batch each graph shows one: they are no matrix.
    """
    first, second = (call.operands[name].shape for name in ("data_in_0", "data_in_1"))
    if max(len(first), len(second)) > 2 or 1 in (first[0], second[0]):
        return None
    rows = _aten.reshape.default(left, [1, *(first if len(first) == 2 else (1, *first))])
    columns = _aten.reshape.default(right, [1, *(second if len(second) == 2 else (*second, 1))])
    product = _aten.matmul.default(rows, columns)
    return [_aten.reshape.default(product, list(call.result.shape))]
