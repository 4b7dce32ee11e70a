"""Pools over windows, and over whole images."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mase_hw.importers.onnx._values import Codes, Function, NodeCall, Value
from mase_hw.importers.onnx.ops.products import padded, paddings

_MAXIMA = (F.max_pool1d, F.max_pool2d, F.max_pool3d)
_MEANS = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)


def _windows(node: NodeCall, values: Tensor) -> tuple[list[int], ...]:
    kernel = list(node.get("kernel_shape"))
    rank = values.dim() - 2
    if len(kernel) != rank or not 1 <= rank <= 3:
        raise node.refuse(f"its window {kernel} does not fit the shape {list(values.shape)}")
    strides = list(node.get("strides") or [1] * rank)
    dilations = list(node.get("dilations") or [1] * rank)
    spans = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    before, behind = paddings(node, spans, list(values.shape[2:]), strides)
    return kernel, strides, dilations, before, behind


def _max_pool(node: NodeCall, x: Value) -> Any:
    if isinstance(x, Codes):
        return replace(x, values=_max_pool(node, x.values))
    values = node.tensor(x)
    if node.results > 1:
        raise node.refuse("its second result, the places of the largest elements, is not known")
    kernel, strides, dilations, before, behind = _windows(node, values)
    ceil = bool(node.get("ceil_mode", 0))
    if before != behind or any(b > k // 2 for b, k in zip(before, kernel, strict=True)):
        values = padded(values, before, behind, float("-inf"))
        before = [0] * len(kernel)
    pool = _MAXIMA[len(kernel) - 1]
    return pool(values, kernel, strides, before, dilations, ceil_mode=ceil)


def _average_pool(node: NodeCall, values: Tensor) -> Tensor:
    kernel, strides, dilations, before, behind = _windows(node, values)
    counts, ceil = bool(node.get("count_include_pad", 0)), bool(node.get("ceil_mode", 0))
    if any(dilation != 1 for dilation in dilations):
        raise node.refuse(f"dilations {dilations} of a mean are not known; allowed is 1")
    pool = _MEANS[len(kernel) - 1]
    if before == behind and all(b <= k // 2 for b, k in zip(before, kernel, strict=True)):
        return pool(values, kernel, strides, before, ceil, counts)
    wide = padded(values, before, behind)
    if counts:
        return pool(wide, kernel, strides, 0, ceil)
    ones = padded(torch.ones_like(values[:1, :1]), before, behind)
    return pool(wide, kernel, strides, 0, ceil) / pool(ones, kernel, strides, 0, ceil)


def _lp_pool(node: NodeCall, values: Tensor) -> Tensor:
    order = node.get("p", 2)
    kernel, strides, dilations, before, behind = _windows(node, values)
    if any(dilation != 1 for dilation in dilations) or node.get("ceil_mode", 0):
        raise node.refuse("dilations and ceil_mode are not known")
    powers = padded(values.abs() ** order, before, behind)
    means: Tensor = _MEANS[len(kernel) - 1](powers, kernel, strides)
    return torch.pow(means * math.prod(kernel), 1 / order)


def _global(node: NodeCall, values: Tensor) -> Tensor:
    dims = list(range(2, values.dim()))
    if node.type == "GlobalMaxPool":
        return torch.amax(values, dims, keepdim=True)
    return torch.mean(values, dims, keepdim=True)


OPERATORS: dict[str, Function] = {
    "AveragePool": _average_pool,
    "GlobalAveragePool": _global,
    "GlobalMaxPool": _global,
    "LpPool": _lp_pool,
    "MaxPool": _max_pool,
}
