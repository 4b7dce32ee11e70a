"""Reductions along dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from mase_hw.importers.onnx._values import Function, NodeCall, Value


def _reduction(function: Callable[[Tensor, list[int], bool], Tensor]) -> Function:
    def compute(node: NodeCall, x: Tensor, *others: Value) -> Tensor:
        axes, keep = node.setting("axes", others, 0), bool(node.get("keepdims", 1))
        if not axes and node.get("noop_with_empty_axes", 0):
            return x
        return function(x, axes or list(range(x.dim())), keep)

    return compute


def _product(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    for dim in sorted((dim % x.dim() for dim in dims), reverse=True):
        x = torch.prod(x, dim, keepdim=keep)
    return x


def _index(node: NodeCall, x: Tensor) -> Tensor:
    dim, keep = node.get("axis", 0), bool(node.get("keepdims", 1))
    function = torch.argmax if node.type == "ArgMax" else torch.argmin
    if node.get("select_last_index", 0):
        return torch.rsub(function(x.flip(dim), dim, keepdim=keep), x.shape[dim] - 1)
    return function(x, dim, keepdim=keep)


def _cumulation(
    function: Callable[[Tensor, int], Tensor], without: Callable[[Tensor, Tensor, int], Tensor]
) -> Function:
    """Cumulation; `without` takes each element out of its own result where it is exclusive."""

    def compute(node: NodeCall, x: Tensor, axis: Value) -> Tensor:
        dim = node.integer(axis, "axis")
        values = x.flip(dim) if node.get("reverse", 0) else x
        results = function(values, dim)
        if node.get("exclusive", 0):
            results = without(results, values, dim)
        return results.flip(dim) if node.get("reverse", 0) else results

    return compute


def _shifted(results: Tensor, values: Tensor, dim: int) -> Tensor:
    ones = torch.ones_like(values.narrow(dim, 0, 1))
    return torch.cat([ones, results.narrow(dim, 0, values.shape[dim] - 1)], dim)


def _top(node: NodeCall, x: Value, *others: Value) -> Any:
    count = node.setting("k", (None, *others), 1)
    count = count[0] if isinstance(count, list) else count
    axis, largest = node.get("axis", -1), bool(node.get("largest", 1))
    return tuple(torch.topk(node.tensor(x), int(count), axis, largest))


OPERATORS: dict[str, Function] = {
    "ArgMax": _index,
    "ArgMin": _index,
    "CumProd": _cumulation(torch.cumprod, _shifted),
    "CumSum": _cumulation(torch.cumsum, lambda results, values, _: results - values),
    "ReduceL1": _reduction(lambda x, dims, keep: torch.sum(x.abs(), dims, keep)),
    "ReduceL2": _reduction(lambda x, dims, keep: torch.sqrt(torch.sum(x * x, dims, keep))),
    "ReduceLogSum": _reduction(lambda x, dims, keep: torch.log(torch.sum(x, dims, keep))),
    "ReduceLogSumExp": _reduction(torch.logsumexp),
    "ReduceMax": _reduction(torch.amax),
    "ReduceMean": _reduction(torch.mean),
    "ReduceMin": _reduction(torch.amin),
    "ReduceProd": _reduction(_product),
    "ReduceSum": _reduction(torch.sum),
    "ReduceSumSquare": _reduction(lambda x, dims, keep: torch.sum(x * x, dims, keep)),
    "TopK": _top,
}
