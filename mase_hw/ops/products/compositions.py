"""Products of tensors that are written with others."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, example, example_values
from mase_hw.ops._composite import composition

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
