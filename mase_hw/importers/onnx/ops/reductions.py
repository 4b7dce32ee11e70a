"""Reductions along dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from mase_hw.importers.onnx._values import Function, NodeCall, Value


def _dims(node: NodeCall, values: Tensor, others: tuple[Value, ...]) -> list[int]:
    given = node.setting("axes", (None, *others), 1)
    if given is None or not len(given):
        return [] if node.get("noop_with_empty_axes", 0) else list(range(values.dim()))
    return [int(axis) for axis in given]


def _reduction(function: Callable[[Tensor, list[int], bool], Tensor]) -> Function:
    def compute(node: NodeCall, x: Value, *others: Value) -> Tensor:
        values = node.tensor(x)
        dims = _dims(node, values, others)
        if not dims:
            return values
        return function(values, dims, bool(node.get("keepdims", 1)))

    return compute


def _mean(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    return torch.mean(x, dims, keepdim=keep)


def _sum(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    return torch.sum(x, dims, keepdim=keep)


def _product(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    for dim in sorted((dim % x.dim() for dim in dims), reverse=True):
        x = torch.prod(x, dim, keepdim=keep)
    return x


def _index(node: NodeCall, x: Value) -> Tensor:
    values, dim = node.tensor(x), node.get("axis", 0)
    function = torch.argmax if node.type == "ArgMax" else torch.argmin
    keep = bool(node.get("keepdims", 1))
    if node.get("select_last_index", 0):
        found = function(values.flip(dim), dim, keepdim=keep)
        return torch.rsub(found, values.shape[dim] - 1)
    return function(values, dim, keepdim=keep)


def _cumulate(node: NodeCall, x: Value, axis: Value) -> Tensor:
    values, dim = node.tensor(x), int(node.array(axis, "axis").reshape(-1)[0])
    if node.get("reverse", 0):
        values = values.flip(dim)
    found = torch.cumsum(values, dim)
    if node.get("exclusive", 0):
        found = found - values
    return found.flip(dim) if node.get("reverse", 0) else found


def _top(node: NodeCall, x: Value, *others: Value) -> Any:
    count = node.setting("k", (None, *others), 1)
    count = count[0] if isinstance(count, list) else count
    axis, largest = node.get("axis", -1), bool(node.get("largest", 1))
    return tuple(torch.topk(node.tensor(x), int(count), axis, largest))


OPERATORS: dict[str, Function] = {
    "ArgMax": _index,
    "ArgMin": _index,
    "CumSum": _cumulate,
    "ReduceL1": _reduction(lambda x, dims, keep: _sum(x.abs(), dims, keep)),
    "ReduceL2": _reduction(lambda x, dims, keep: torch.sqrt(_sum(x * x, dims, keep))),
    "ReduceLogSum": _reduction(lambda x, dims, keep: torch.log(_sum(x, dims, keep))),
    "ReduceLogSumExp": _reduction(lambda x, dims, keep: torch.logsumexp(x, dims, keep)),
    "ReduceMax": _reduction(lambda x, dims, keep: torch.amax(x, dims, keep)),
    "ReduceMean": _reduction(_mean),
    "ReduceMin": _reduction(lambda x, dims, keep: torch.amin(x, dims, keep)),
    "ReduceProd": _reduction(_product),
    "ReduceSum": _reduction(_sum),
    "ReduceSumSquare": _reduction(lambda x, dims, keep: _sum(x * x, dims, keep)),
    "TopK": _top,
}
