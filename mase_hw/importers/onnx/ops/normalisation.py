"""Normalisation, and softmax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mase_hw.importers.onnx._values import Function, NodeCall, Value

SOFTMAX_BY_DIMENSION = 13


def _batch(
    node: NodeCall, x: Value, scale: Value, bias: Value, mean: Value, variance: Value
) -> Tensor:
    if node.get("training_mode", 0) or node.results > 1:
        raise node.refuse("it trains: its statistics are those of the batch")
    first, second, gain, shift = (node.tensor(item) for item in (mean, variance, scale, bias))
    epsilon = node.get("epsilon", 1e-5)
    return F.batch_norm(node.tensor(x), first, second, gain, shift, eps=epsilon)


def _instance(node: NodeCall, x: Value, scale: Value, bias: Value) -> Tensor:
    gain, shift, epsilon = node.tensor(scale), node.tensor(bias), node.get("epsilon", 1e-5)
    return F.instance_norm(node.tensor(x), weight=gain, bias=shift, eps=epsilon)


def _group(node: NodeCall, x: Value, scale: Value, bias: Value) -> Tensor:
    values, groups = node.tensor(x), node.get("num_groups")
    gain, shift = node.tensor(scale), node.tensor(bias)
    if gain.numel() == groups != values.shape[1]:
        gain, shift = (item.repeat_interleave(values.shape[1] // groups) for item in (gain, shift))
    return F.group_norm(values, groups, gain, shift, node.get("epsilon", 1e-5))


def _rows(node: NodeCall, values: Tensor) -> list[int]:
    axis = node.get("axis", -1) % values.dim()
    return list(values.shape[axis:])


def _layer(node: NodeCall, x: Value, scale: Value, bias: Value = None) -> Any:
    values, epsilon = node.tensor(x), node.get("epsilon", 1e-5)
    shape = _rows(node, values)
    gain = node.tensor(scale).expand(shape)
    shift = None if bias is None else node.tensor(bias).expand(shape)
    found = F.layer_norm(values, shape, gain, shift, epsilon)
    if node.results == 1:
        return found
    dims = list(range(values.dim() - len(shape), values.dim()))
    mean = values.mean(dims, keepdim=True)
    variance = ((values - mean) ** 2).mean(dims, keepdim=True)
    return found, mean, torch.rsqrt(variance + epsilon)


def _root_mean_square(node: NodeCall, x: Value, scale: Value) -> Tensor:
    values = node.tensor(x)
    shape = _rows(node, values)
    return F.rms_norm(values, shape, node.tensor(scale).reshape(shape), node.get("epsilon", 1e-5))


def _norm(node: NodeCall, x: Value) -> Tensor:
    return F.normalize(node.tensor(x), node.get("p", 2), node.get("axis", -1))


def _mean_variance(node: NodeCall, x: Value) -> Tensor:
    values, dims = node.tensor(x), list(node.get("axes", [0, 2, 3]))
    centred = values - values.mean(dims, keepdim=True)
    return centred / (torch.sqrt((centred * centred).mean(dims, keepdim=True)) + 1e-9)


def _local_response(node: NodeCall, x: Value) -> Tensor:
    alpha, beta, bias = node.get("alpha", 1e-4), node.get("beta", 0.75), node.get("bias", 1.0)
    return F.local_response_norm(node.tensor(x), node.get("size"), alpha, beta, bias)


def _softmax(function: Callable[..., Tensor]) -> Function:
    def compute(node: NodeCall, x: Value) -> Any:
        values = node.tensor(x)
        if node.version >= SOFTMAX_BY_DIMENSION:
            return function(values, node.get("axis", -1))
        axis = node.get("axis", 1) % values.dim()
        if axis == values.dim() - 1:
            return function(values, axis)
        return function(values.flatten(axis), -1).reshape(values.shape)

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
