"""Functions and arithmetic, element by element."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mase_hw.importers.onnx._values import (
    Codes,
    Constant,
    Function,
    NodeCall,
    Sums,
    Value,
    of_sizes,
)


def _function(
    function: Callable[..., Any], sizes: Callable[..., Any] | None = None, **defaults: Any
) -> Function:
    """A function of tensors, or of sizes, whose keywords are attributes with these defaults."""

    def compute(node: NodeCall, *values: Value) -> Any:
        settings = {name: node.get(name, default) for name, default in defaults.items()}
        return function(*map(node.tensor, values), **settings)

    return compute if sizes is None else of_sizes(compute, sizes)


def _or_sums(
    function: Callable[..., Any], with_sums: Callable[[Sums, Value], Sums | None]
) -> Function:
    """Arithmetic that a constant may also do to sums of integers, as a part of their layer."""
    compute = _function(function, function)

    def of_sums(node: NodeCall, a: Value, b: Value) -> Any:
        sums, other = (a, b) if isinstance(a, Sums) else (b, a)
        return (isinstance(sums, Sums) and with_sums(sums, other)) or compute(node, a, b)

    return of_sums


def _many(function: Callable[..., Any], sizes: Callable[..., Any]) -> Function:
    return _function(lambda *values: reduce(function, values), lambda *items: reduce(sizes, items))


def _divide(a: Tensor, b: Tensor) -> Tensor:
    whole = not a.is_floating_point() and not b.is_floating_point()
    return torch.div(a, b, rounding_mode="trunc" if whole else None)


def _clip(node: NodeCall, x: Value, *ends: Value) -> Tensor | Codes:
    low, high = (
        None if end is None else float(end[0] if isinstance(end, list) else end)
        for end in (node.setting("min", ends, 0), node.setting("max", ends, 1))
    )
    if isinstance(x, Codes):
        if x.levels is None or len(x.levels.scale) > 1:
            raise node.refuse("codes of no one scale are bounded; bound the reals")
        (scale,), (point,) = x.levels.scale, x.levels.zero_point
        low, high = (None if end is None else (end - point) * scale for end in (low, high))
        return replace(x, values=torch.clamp(x.values, low, high))
    if low is None and high is None:
        return node.tensor(x)
    return torch.clamp(node.tensor(x), low, high)


def _prelu(x: Tensor, slopes: Tensor) -> Tensor:
    each = x.dim() > 1 and slopes.numel() == x.shape[1] == slopes.shape[1 - x.dim()]
    if each or slopes.numel() == 1:
        return F.prelu(x, slopes.reshape(-1))
    return torch.where(x < 0, x * slopes, x)


def _hard_sigmoid(x: Tensor, alpha: float, beta: float) -> Tensor:
    if abs(alpha - 1 / 6) < 1e-6 and beta == 0.5:
        return F.hardsigmoid(x)
    return torch.clamp(alpha * x + beta, 0, 1)


def _selu(x: Tensor, alpha: float, gamma: float) -> Tensor:
    if abs(alpha - 1.6732632) < 1e-6 and abs(gamma - 1.0507009) < 1e-6:
        return F.selu(x)
    return gamma * F.elu(x, alpha)


def _shrink(x: Tensor, bias: float, lambd: float) -> Tensor:
    if bias == 0:
        return F.hardshrink(x, lambd)
    if bias == lambd:
        return F.softshrink(x, lambd)
    return torch.where(x < -lambd, x + bias, torch.where(x > lambd, x - bias, torch.zeros_like(x)))


def _swish(x: Tensor, alpha: float) -> Tensor:
    return F.silu(x) if alpha == 1 else x * torch.sigmoid(alpha * x)


def _is_inf(x: Tensor, detect_positive: int, detect_negative: int) -> Tensor:
    if detect_positive and detect_negative:
        return torch.isinf(x)
    return x == (float("inf") if detect_positive else float("-inf"))


def _bit_shift(a: Tensor, b: Tensor, direction: str) -> Tensor:
    return (torch.bitwise_right_shift if direction == "RIGHT" else torch.bitwise_left_shift)(a, b)


def dtype_of(node: NodeCall, kind: int) -> torch.dtype:
    """Return the dtype of torch for one of ONNX's.

    Raises:
        CaptureError: for one that torch or NumPy lacks.
    """
    from onnx import TensorProto, helper

    try:
        return torch.from_numpy(np.zeros(0, helper.tensor_dtype_to_np_dtype(kind))).dtype
    except (TypeError, KeyError) as error:
        name = TensorProto.DataType.Name(kind).lower()
        raise node.refuse(f"numbers of type {name} are not known") from error


def _cast(node: NodeCall, x: Value, *like: Value) -> Any:
    if like:
        return node.tensor(x).to(node.tensor(like[0]).dtype)
    kind = node.get("to")
    if isinstance(x, Constant) and x.array.dtype == object:
        return x
    dtype = dtype_of(node, kind)
    if isinstance(x, Sums) and dtype.is_floating_point:
        return x
    if isinstance(x, Codes):
        raise node.refuse("integer codes have no other type; DequantizeLinear makes reals of them")
    if isinstance(x, Constant) and x.tensor is None:
        return Constant(x.array.astype(str(dtype).removeprefix("torch.")))
    return node.tensor(x).to(dtype)


# Functions that torch has by the same name.
_TORCH = (
    "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor IsNaN Log Pow Reciprocal "
    "Round Sigmoid Sign Sin Sinh Tan Tanh"
)
OPERATORS: dict[str, Function] = {
    **{name: _function(getattr(torch, name.lower())) for name in _TORCH.split()},
    **{
        name: _function(getattr(F, name.lower()))
        for name in ("HardSwish", "Mish", "Relu", "Softplus", "Softsign")
    },
    "Add": _or_sums(operator.add, Sums.plus),
    "And": _function(torch.logical_and, np.logical_and),
    "BitShift": _function(_bit_shift, direction="LEFT"),
    "BitwiseAnd": _function(torch.bitwise_and),
    "BitwiseNot": _function(torch.bitwise_not),
    "BitwiseOr": _function(torch.bitwise_or),
    "BitwiseXor": _function(torch.bitwise_xor),
    "Cast": _cast,
    "CastLike": _cast,
    "Celu": _function(F.celu, alpha=1.0),
    "Clip": _clip,
    "Div": _function(
        _divide, lambda a, b: a / b if np.issubdtype(a.dtype, np.floating) else a // b
    ),
    "Elu": _function(F.elu, alpha=1.0),
    "Equal": _function(torch.eq, np.equal),
    "Gelu": _function(F.gelu, approximate="none"),
    "Greater": _function(torch.gt, np.greater),
    "GreaterOrEqual": _function(torch.ge, np.greater_equal),
    "HardSigmoid": _function(_hard_sigmoid, alpha=0.2, beta=0.5),
    "IsInf": _function(_is_inf, detect_positive=1, detect_negative=1),
    "LeakyRelu": _function(lambda x, alpha: F.leaky_relu(x, alpha), alpha=0.01),
    "Less": _function(torch.lt, np.less),
    "LessOrEqual": _function(torch.le, np.less_equal),
    "Max": _many(torch.maximum, np.maximum),
    "Mean": _function(lambda *values: reduce(operator.add, values) / len(values)),
    "Min": _many(torch.minimum, np.minimum),
    "Mod": _function(
        lambda a, b, fmod: (torch.fmod if fmod else torch.remainder)(a, b), np.mod, fmod=0
    ),
    "Mul": _or_sums(operator.mul, Sums.times),
    "Neg": _function(torch.neg, np.negative),
    "Not": _function(torch.logical_not, np.logical_not),
    "Or": _function(torch.logical_or, np.logical_or),
    "PRelu": _function(_prelu),
    "Selu": _function(_selu, alpha=1.6732632423543772, gamma=1.0507009873554805),
    "Shrink": _function(_shrink, bias=0.0, lambd=0.5),
    "Sqrt": _function(torch.sqrt, np.sqrt),
    "Sub": _function(operator.sub, operator.sub),
    "Sum": _many(operator.add, operator.add),
    "Swish": _function(_swish, alpha=1.0),
    "ThresholdedRelu": _function(lambda x, alpha: F.threshold(x, alpha, 0.0), alpha=1.0),
    "Where": _function(torch.where, lambda kept, a, b: np.where(kept.astype(bool), a, b)),
    "Xor": _function(torch.logical_xor),
}
