"""Reductions along dimensions that are written with other operators."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Call, Example, along_batch, example, example_values
from mase_hw.ops._composite import composition, refuse_batch
from mase_hw.ops.comparison.compositions import truths


def _dims(call: Call) -> list[int]:
    """Return the reduced dimensions, all where none is named."""
    dims = call.attributes.get("dim")
    if dims is None:
        return list(range(len(call.operands["data_in_0"].shape)))
    return [dims] if isinstance(dims, int) else list(dims)


def _keeps(call: Call) -> bool:
    return bool(call.attributes.get("keepdim", False))


@composition(
    "aten.amin.default",
    "aten.min.default",
    examples=lambda: [
        example(lambda x: x.amin(-1), (2, 3, 7)),
        example(lambda x: x.amin(1, keepdim=True), (2, 3, 4)),
    ],
)
def amin(call: Call, data: Tensor) -> Tensor:
    """Smallest element over dimensions (torch.amin): the negative of the largest of negatives."""
    dims = list(call.attributes["dim"] or ())
    return aten.neg.default(aten.amax.default(aten.neg.default(data), dims, _keeps(call)))


@composition(
    "aten.max.dim",
    examples=lambda: [
        example(lambda x: x.max(1).values, (2, 3, 4)),
        example(lambda x: x.max(-1, keepdim=True).indices, (2, 5)),
    ],
)
def max_(call: Call, data: Tensor) -> list[Tensor]:
    """Largest element along a dimension and its index (torch.max), either of them or both."""
    dim, keeps = int(call.attributes["dim"]), _keeps(call)
    return [aten.amax.default(data, [dim], keeps), aten.argmax.default(data, dim, keeps)]


@composition(
    "aten.min.dim",
    examples=lambda: [
        example(lambda x: x.min(1).values, (2, 3, 4)),
        example(lambda x: x.min(-1, keepdim=True).indices, (2, 5)),
    ],
)
def min_(call: Call, data: Tensor) -> list[Tensor]:
    """Smallest element along a dimension and its index (torch.min), either of them or both."""
    dim, keeps = int(call.attributes["dim"]), _keeps(call)
    return [aten.amin.default(data, [dim], keeps), aten.argmin.default(data, dim, keeps)]


@composition("aten.argmin.default", examples=lambda: [example(lambda x: x.argmin(1), (2, 10))])
def argmin(call: Call, data: Tensor) -> Tensor:
    """Index of the smallest element of a dimension (torch.argmin): that of the largest negative."""
    dim, keeps = call.attributes["dim"], call.attributes["keepdim"]
    return aten.argmax.default(aten.neg.default(data), dim, keeps)


@composition(
    "aten.nanmean.default", examples=lambda: [example(lambda x: torch.nanmean(x, -1), (2, 5))]
)
def nanmean(call: Call, data: Tensor) -> Tensor:
    """Mean (torch.nanmean): fixed point has no NaN."""
    return aten.mean.dim(data, _dims(call), _keeps(call))


@composition(
    "aten.nansum.default", examples=lambda: [example(lambda x: torch.nansum(x, -1), (2, 5))]
)
def nansum(call: Call, data: Tensor) -> Tensor:
    """Sum (torch.nansum): fixed point has no NaN."""
    return aten.sum.dim_IntList(data, _dims(call), _keeps(call))


def _quantified(holds: Callable[..., Tensor]) -> list[Example]:
    return [
        example(lambda x: torch.where(holds(x > 0.5, -1, keepdim=True), x, 0.0), (2, 3, 4)),
        example(lambda x: torch.where(holds(x, 1), 0.75, 0.5), example_values(2, 3).relu()),
    ]


@composition("aten.any.dim", "aten.any.dims", examples=lambda: _quantified(torch.any))
def any_(call: Call, data: Tensor) -> Tensor:
    """1 where an element along dimensions is not zero, else 0 (torch.any)."""
    (truth,) = truths(call, [data])
    return aten.amax.default(truth, _dims(call), _keeps(call))


@composition("aten.all.dim", "aten.all.dims", examples=lambda: _quantified(torch.all))
def all_(call: Call, data: Tensor) -> Tensor:
    """1 where no element along dimensions is zero, else 0 (torch.all)."""
    (truth,) = truths(call, [data])
    missing = aten.amax.default(aten.eq.Scalar(truth, 0), _dims(call), _keeps(call))
    return aten.eq.Scalar(missing, 0)


@composition(
    "aten.prod.dim_int",
    examples=lambda: [
        example(lambda x: (x * 2.0).prod(-1), (2, 4)),
        example(lambda x: (x * 2.0).prod(1, keepdim=True), (2, 3, 4)),
    ],
    refusal=refuse_batch("it reduces", "name another dimension"),
)
def prod(call: Call, data: Tensor) -> Tensor:
    """Product of the elements along a dimension (torch.prod): of halves, each rounded."""
    dim = int(call.attributes["dim"])
    size = call.operands["data_in_0"].shape[dim]
    while size > 1:
        half = size // 2
        first = aten.slice.Tensor(data, dim, 0, half)
        product = aten.mul.Tensor(first, aten.slice.Tensor(data, dim, half, 2 * half))
        rest = [aten.slice.Tensor(data, dim, 2 * half, size)] if size % 2 else []
        data = aten.cat.default([product, *rest], dim) if rest else product
        size -= half
    return aten.reshape.default(data, [-1, *call.result.shape[1:]])


@composition(
    "aten.logsumexp.default",
    examples=lambda: [
        example(lambda x: torch.logsumexp(x, -1), (3, 2, 7)),
        example(lambda x: torch.logsumexp(x, 1, keepdim=True), (3, 5, 2)),
    ],
)
def logsumexp(call: Call, data: Tensor) -> Tensor:
    """Logarithm of the sum of exponentials (torch.logsumexp), see `log_of_exponentials`."""
    logarithm = log_of_exponentials(data, list(call.attributes["dim"]))
    if _keeps(call):
        return logarithm
    return aten.reshape.default(logarithm, [-1, *call.result.shape[1:]])


def log_of_exponentials(data: Tensor, dims: list[int]) -> Tensor:
    """Return `m + log(sum exp(x - m))`, the dimensions kept with one element.

    `m` is the largest element. The difference, the logarithm and the sum are rounded each: see
    `log_sum` for what lies between.
    """
    largest = aten.amax.default(data, dims, True)
    rest = aten.sub.Tensor(data, largest)
    return aten.add.Tensor(largest, torch.ops.mase.log_sum.default(rest, dims, True))


@composition(
    "aten.log_softmax.int",
    "aten._log_softmax.default",
    "aten.special_log_softmax.default",
    examples=lambda: [
        example(lambda x: torch.log_softmax(x, -1), (3, 2, 7)),
        example(lambda x: torch.log_softmax(x, 1), (3, 5, 2)),
    ],
)
def log_softmax(call: Call, data: Tensor) -> Tensor:
    """Logarithm of softmax along a dimension, `y[i] = x[i] - log(sum exp(x))`.

    The logarithm of the sum is rounded to the format of the difference, which is exact and rounded
    once.
    """
    return aten.sub.Tensor(data, log_of_exponentials(data, [int(call.attributes["dim"])]))


def _spread(call: Call) -> tuple[list[int], int, float]:
    """Return the dimensions of a variance, their elements, and the divisor of the squares' sum."""
    shape = call.operands["data_in_0"].shape
    dims = sorted(dim % len(shape) for dim in _dims(call)) or list(range(len(shape)))
    count = math.prod(shape[dim] for dim in dims)
    correction = call.attributes.get("correction")
    if correction is None:
        correction = int(bool(call.attributes.get("unbiased", True)))
    return dims, count, count - float(correction)


def _refuse_variance(call: Call) -> list[str]:
    dims, count, divisor = _spread(call)
    if 0 in dims:
        return [along_batch("it reduces", "name other dimensions to reduce")]
    if divisor <= 0:
        return [f"the variance of {count} elements is divided by {divisor:g}; correct by less"]
    return []


def _mean(call: Call, data: Tensor) -> Tensor:
    dims = call.attributes["dim"] or list(range(1, len(call.operands["data_in_0"].shape)))
    return aten.mean.dim(data, dims, _keeps(call))


@composition(
    "aten.var.correction",
    "aten.var.dim",
    examples=lambda: [
        example(lambda x: x.var(-1), (2, 3, 5)),
        example(lambda x: x.var((2, 3), correction=0, keepdim=True), (2, 3, 2, 4)),
    ],
    refusal=_refuse_variance,
)
def variance(call: Call, data: Tensor) -> Tensor:
    """Mean square of the deviations from the mean, scaled by the correction (torch.var)."""
    return _variance(call, data)


def _variance(call: Call, data: Tensor) -> Tensor:
    dims, count, divisor = _spread(call)
    deviations = aten.sub.Tensor(data, aten.mean.dim(data, dims, True))
    squares = aten.mean.dim(aten.square.default(deviations), dims, _keeps(call))
    return squares if divisor == count else aten.mul.Tensor(squares, count / divisor)


@composition(
    "aten.std.correction",
    "aten.std.dim",
    examples=lambda: [example(lambda x: x.std(1), (2, 5, 3))],
    refusal=_refuse_variance,
)
def standard_deviation(call: Call, data: Tensor) -> Tensor:
    """Root of the variance (torch.std)."""
    return aten.sqrt.default(_variance(call, data))


@composition(
    "aten.var_mean.correction",
    "aten.var_mean.dim",
    examples=lambda: [
        example(lambda x: torch.cat(torch.var_mean(x, -1), 1), (2, 3, 5)),
        example(lambda x: torch.var_mean(x, -1)[0], (2, 3, 5)),
    ],
    refusal=_refuse_variance,
)
def var_mean(call: Call, data: Tensor) -> list[Tensor]:
    """Variance and mean over dimensions (torch.var_mean)."""
    return [_variance(call, data), _mean(call, data)]


@composition(
    "aten.std_mean.correction",
    "aten.std_mean.dim",
    examples=lambda: [
        example(lambda x: torch.cat(torch.std_mean(x, -1), 1), (2, 3, 5)),
        example(lambda x: torch.std_mean(x, -1)[0], (2, 3, 5)),
    ],
    refusal=_refuse_variance,
)
def std_mean(call: Call, data: Tensor) -> list[Tensor]:
    """Standard deviation and mean over dimensions (torch.std_mean)."""
    spread, mean = _variance(call, data), _mean(call, data)
    return [aten.sqrt.default(spread), mean]
