"""Normalisation, and softmax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mase_hw.importers.onnx._values import Function, NodeCall

SOFTMAX_BY_DIMENSION = 13


def _batch(
    node: NodeCall, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor
) -> Tensor:
    if node.get("training_mode", 0) or node.results > 1:
        raise node.refuse("it trains: its statistics are those of the batch")
    return F.batch_norm(x, mean, variance, scale, bias, eps=node.get("epsilon", 1e-5))


def _instance(node: NodeCall, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    return F.instance_norm(x, weight=scale, bias=bias, eps=node.get("epsilon", 1e-5))


def _group(node: NodeCall, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    groups = node.get("num_groups")
    if scale.numel() == groups != x.shape[1]:
        scale, bias = (item.repeat_interleave(x.shape[1] // groups) for item in (scale, bias))
    return F.group_norm(x, groups, scale, bias, node.get("epsilon", 1e-5))


def _layer(node: NodeCall, x: Tensor, scale: Tensor, bias: Tensor | None = None) -> Any:
    shape, epsilon = x.shape[node.get("axis", -1) % x.dim() :], node.get("epsilon", 1e-5)
    shift = None if bias is None else bias.expand(shape)
    normed = F.layer_norm(x, list(shape), scale.expand(shape), shift, epsilon)
    if node.results == 1:
        return normed
    dims = list(range(x.dim() - len(shape), x.dim()))
    mean = x.mean(dims, keepdim=True)
    variance = ((x - mean) ** 2).mean(dims, keepdim=True)
    return normed, mean, torch.rsqrt(variance + epsilon)


def _root_mean_square(node: NodeCall, x: Tensor, scale: Tensor) -> Tensor:
    shape = list(x.shape[node.get("axis", -1) % x.dim() :])
    return F.rms_norm(x, shape, scale.reshape(shape), node.get("epsilon", 1e-5))


def _norm(node: NodeCall, x: Tensor) -> Tensor:
    return F.normalize(x, node.get("p", 2), node.get("axis", -1))


def _mean_variance(node: NodeCall, x: Tensor) -> Tensor:
    dims = list(node.get("axes", [0, 2, 3]))
    centred = x - x.mean(dims, keepdim=True)
    return centred / (torch.sqrt((centred * centred).mean(dims, keepdim=True)) + 1e-9)


def _local_response(node: NodeCall, x: Tensor) -> Tensor:
    alpha, beta, bias = node.get("alpha", 1e-4), node.get("beta", 0.75), node.get("bias", 1.0)
    return F.local_response_norm(x, node.get("size"), alpha, beta, bias)


def _softmax(function: Callable[..., Tensor]) -> Function:
    def compute(node: NodeCall, x: Tensor) -> Any:
        if node.version >= SOFTMAX_BY_DIMENSION:
            return function(x, node.get("axis", -1))
        axis = node.get("axis", 1) % x.dim()
        if axis == x.dim() - 1:
            return function(x, axis)
        return function(x.flatten(axis), -1).reshape(x.shape)

    return compute


OPERATORS: dict[str, Function] = {
    "BatchNormalization": _batch,
    "GroupNormalization": _group,
    "InstanceNormalization": _instance,
    "LRN": _local_response,
    "LayerNormalization": _layer,
    "LogSoftmax": _softmax(torch.log_softmax),
    "LpNormalization": _norm,
    "MeanVarianceNormalization": _mean_variance,
    "RMSNormalization": _root_mean_square,
    "Softmax": _softmax(torch.softmax),
}
