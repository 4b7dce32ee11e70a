"""Products of tensors that are written with others.

Sum of a tensor and a product of matrices, `y = beta * c + alpha * (a b)` (torch.addmm).

With constant `b` and `c` it is a linear layer; with one constant factor, a linear layer and a sum;
of two streams, their product and a sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example, example_values
from mase_hw.ops._composite import composition
from mase_hw.ops.products._constant_product import (
    ConstantProduct,
    is_right,
    matrix_product,
    matrix_refusals,
)

# A least length that no row in a number format has, unless it is zero.
SMALL = 1e-6
PAIR = {"x1": "data_in_0", "x2": "data_in_1"}


def _refuse_streams(call: Call) -> list[str]:
    if not {"weight", "bias"} & set(call.operands) <= set(call.constants):
        return ["weight or bias is computed by the model; only constants are legal"]
    return []


@composition(
    "aten.bilinear.default",
    examples=lambda: [
        example(nn.Bilinear(3, 4, 2), (2, 3), (2, 4)),
        example(nn.Bilinear(3, 4, 3, bias=False), (2, 3), (2, 4)),
    ],
    refusal=_refuse_streams,
    operand_names={
        "input1": "data_in_0",
        "input2": "data_in_1",
        "weight": "weight",
        "bias": "bias",
    },
)
def bilinear(call: Call, x: Tensor, z: Tensor, weight: Tensor, *bias: Tensor) -> Tensor:
    """`y_o = x^T W_o z + b_o` (torch.nn.Bilinear): a linear layer, and its product with `z`."""
    results, first, second = call.operands["weight"].shape
    rows = list(call.result.shape[1:-1])
    weight = aten.permute.default(weight, [0, 2, 1])
    weight = aten.reshape.default(weight, [results * second, first])
    layer = aten.reshape.default(aten.linear.default(x, weight), [-1, *rows, results, second])
    product = aten.matmul.default(layer, aten.unsqueeze.default(z, -1))
    product = aten.squeeze.dim(product, -1)
    return aten.add.Tensor(product, *bias) if bias else product


def _refuse_norm(call: Call) -> list[str]:
    if float(call.attributes["p"]) not in (1.0, 2.0):
        return [f"p is {call.attributes['p']:g}; allowed: 1, 2"]
    return []


@composition(
    "aten.cdist.default",
    "aten._cdist_forward.default",
    examples=lambda: [
        example(torch.cdist, (2, 3, 4), (2, 2, 4)),
        example(Apply(torch.cdist, example_values(5, 4, seed=2)), (2, 3, 4)),
        example(lambda x, y: torch.cdist(x, y, p=1.0), (2, 3, 4), (2, 2, 4)),
    ],
    refusal=_refuse_norm,
    operand_names=PAIR,
)
def cdist(call: Call, x: Tensor, y: Tensor) -> Tensor:
    """Distances of the rows of two matrices (torch.cdist): each is subtracted from each."""
    difference = aten.sub.Tensor(aten.unsqueeze.default(x, -2), aten.unsqueeze.default(y, -3))
    if call.attributes["p"] == 1:
        return aten.sum.dim_IntList(aten.abs.default(difference), [-1])
    return aten.sqrt.default(aten.sum.dim_IntList(aten.square.default(difference), [-1]))


@composition(
    "aten.cosine_similarity.default",
    examples=lambda: [
        example(lambda x, y: torch.cosine_similarity(x, y, -1), (2, 3, 5), (2, 3, 5))
    ],
    operand_names=PAIR,
)
def cosine_similarity(call: Call, x: Tensor, y: Tensor) -> Tensor:
    """Cosine of the angle between vectors along a dimension (torch.cosine_similarity).

    The sum of products, over both lengths, which are `eps` at least.
    """
    dims, eps = [int(call.attributes["dim"])], float(call.attributes["eps"])
    values = [x, y]
    shapes = [spec.shape for spec in call.operands.values()]
    if eps <= SMALL and all(dims[0] in (-1, len(shape) - 1) for shape in shapes):
        rows = [
            aten.rms_norm.default(value, [shape[-1]], None, eps * eps / shape[-1])
            for value, shape in zip(values, shapes, strict=True)
        ]
        return aten.mean.dim(aten.mul.Tensor(*rows), [-1])
    products = aten.sum.dim_IntList(aten.mul.Tensor(x, y), dims)
    lengths = [
        aten.sqrt.default(aten.sum.dim_IntList(aten.square.default(value), dims))
        for value in values
    ]
    bounded = [aten.clamp.default(length, eps) for length in lengths]
    return aten.div.Tensor(products, aten.mul.Tensor(*bounded))


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
    return {"data_in_0", "data_in_1"} & set(call.constants)


def _scaled(value: object, factor: float) -> Any:
    return value if factor == 1 else aten.mul.Tensor(value, factor)
