"""Sums of products: matrices, convolutions."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mase_hw.importers.onnx._values import Constant, Function, NodeCall, Value

CONVOLUTIONS = (F.conv1d, F.conv2d, F.conv3d)
TRANSPOSED = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)


def paddings(
    node: NodeCall, spans: list[int], sizes: list[int], strides: list[int]
) -> tuple[list[int], list[int]]:
    """Return the padding before and behind along each dimension of space.

    Args:
        node: with `auto_pad` and `pads`.
        spans: elements from the first one of a window to its last one, and one.
        sizes: of the image.
        strides: of the windows.
    """
    how, rank = node.get("auto_pad", "NOTSET"), len(spans)
    if how in ("SAME_UPPER", "SAME_LOWER"):
        totals = [
            max((-(-size // stride) - 1) * stride + span - size, 0)
            for span, size, stride in zip(spans, sizes, strides, strict=True)
        ]
        less, more = [t // 2 for t in totals], [t - t // 2 for t in totals]
        return (less, more) if how == "SAME_UPPER" else (more, less)
    pads = list(node.get("pads") or [0] * (2 * rank))
    if how == "VALID":
        pads = [0] * (2 * rank)
    return pads[:rank], pads[rank:]


def padded(values: Tensor, before: list[int], behind: list[int], fill: float = 0.0) -> Tensor:
    """Return an image with more pixels around it."""
    pads = [side for pair in zip(reversed(before), reversed(behind), strict=True) for side in pair]
    return F.pad(values, pads, value=fill)


def convolve(node: NodeCall, values: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return a convolution with a node's attributes."""
    rank = values.dim() - 2
    if not 1 <= rank <= len(CONVOLUTIONS):
        raise node.refuse(f"its operand has {values.dim()} dimensions; allowed are 3 to 5")
    strides = list(node.get("strides") or [1] * rank)
    dilations = list(node.get("dilations") or [1] * rank)
    kernel = list(weight.shape[2:])
    spans = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    before, behind = paddings(node, spans, list(values.shape[2:]), strides)
    if before != behind:
        values, before = padded(values, before, behind), [0] * rank
    groups = node.get("group", 1)
    return CONVOLUTIONS[rank - 1](values, weight, bias, strides, before, dilations, groups)


def _conv(node: NodeCall, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return convolve(node, x, weight, bias)


def _conv_transpose(
    node: NodeCall, values: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    rank = values.dim() - 2
    strides = list(node.get("strides") or [1] * rank)
    dilations = list(node.get("dilations") or [1] * rank)
    extra = list(node.get("output_padding") or [0] * rank)
    spans = [d * (k - 1) + 1 for d, k in zip(dilations, weight.shape[2:], strict=True)]
    pads = list(node.get("pads") or [0] * (2 * rank))
    before, behind = pads[:rank], pads[rank:]
    how, wanted = node.get("auto_pad", "NOTSET"), node.get("output_shape")
    if wanted or how.startswith("SAME"):
        sizes = list(values.shape[2:])
        goals = list(wanted)[-rank:] if wanted else [n * s for n, s in zip(sizes, strides)]  # noqa: B905
        for i in range(rank):
            total = strides[i] * (sizes[i] - 1) + extra[i] + spans[i] - goals[i]
            less, more = total // 2, total - total // 2
            before[i], behind[i] = (less, more) if how == "SAME_UPPER" else (more, less)
    around = before if before == behind else [0] * rank
    others: Any = (strides, around, extra, node.get("group", 1), dilations)
    whole = TRANSPOSED[rank - 1](values, weight, bias, *others)
    if before == behind:
        return whole
    for dim in range(rank):
        length = whole.shape[dim + 2] - before[dim] - behind[dim]
        whole = whole.narrow(dim + 2, before[dim], length)
    return whole


def _matmul(node: NodeCall, a: Value, b: Value) -> Tensor:
    """A product; that with a matrix of weights is a layer."""
    left, right = node.tensor(a), node.tensor(b)
    if isinstance(b, Constant) and right.dim() == 2 and left.dim() >= 2:
        return F.linear(left, right.t())
    return torch.matmul(left, right)


def _gemm(node: NodeCall, a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    left = a.t() if node.get("transA", 0) else a
    weight = b if node.get("transB", 0) else b.t()
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    if bias is None or alpha != 1:
        product = F.linear(left, weight)
        product = product if alpha == 1 else product * alpha
        if bias is None:
            return product
        return torch.add(product, bias if beta == 1 else bias * beta)
    bias = bias if beta == 1 else bias * beta
    if bias.dim() and bias.numel() == bias.shape[-1] == weight.shape[0]:
        return F.linear(left, weight, bias.reshape(-1) if bias.dim() > 1 else bias)
    return F.linear(left, weight) + bias


def _einsum(node: NodeCall, *values: Tensor) -> Tensor:
    return torch.einsum(node.get("equation"), *values)


OPERATORS: dict[str, Function] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Einsum": _einsum,
    "Gemm": _gemm,
    "MatMul": _matmul,
}
