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


def _unary(function: Callable[..., Tensor], **given: tuple[str, float]) -> Function:
    """Return a function of one tensor, with arguments that are attributes."""

    def compute(node: NodeCall, x: Value, *others: Value) -> Tensor:
        settings = {key: node.get(name, default) for key, (name, default) in given.items()}
        return function(node.tensor(x), **settings)

    return compute


def _binary(
    function: Callable[..., object], sizes: Callable[..., object] | None = None
) -> Function:
    """A function of two tensors, or of sizes."""

    def compute(node: NodeCall, a: Value, b: Value) -> object:
        return function(node.tensor(a), node.tensor(b))

    return compute if sizes is None else of_sizes(compute, sizes)


def _add(node: NodeCall, a: Value, b: Value) -> object:
    return _of_sums(a, b, Sums.plus) or _SUM(node, a, b)


def _mul(node: NodeCall, a: Value, b: Value) -> object:
    return _of_sums(a, b, Sums.times) or _PRODUCT(node, a, b)


def _of_sums(a: Value, b: Value, method: Callable[[Sums, Value], Sums | None]) -> Sums | None:
    """Return what a constant does to sums of integers; None where it is no part of their layer."""
    for sums, other in ((a, b), (b, a)):
        if isinstance(sums, Sums):
            return method(sums, other)
    return None


def _many(
    function: Callable[[Tensor, Tensor], Tensor], sizes: Callable[..., object] = operator.add
) -> Function:
    def compute(node: NodeCall, *values: Value) -> Tensor:
        return reduce(function, [node.tensor(value) for value in values])

    return of_sizes(compute, lambda *arrays: reduce(sizes, arrays))


def _mean(node: NodeCall, *values: Value) -> Tensor:
    total = reduce(operator.add, [node.tensor(value) for value in values])
    return total / len(values)


def _divide(a: Tensor, b: Tensor) -> Tensor:
    whole = not a.is_floating_point() and not b.is_floating_point()
    return torch.div(a, b, rounding_mode="trunc" if whole else None)


def _divide_sizes(a: Any, b: Any) -> Any:
    return a / b if np.issubdtype(np.asarray(a).dtype, np.floating) else a // b


def _mod(node: NodeCall, a: Value, b: Value) -> Tensor:
    function = torch.fmod if node.get("fmod", 0) else torch.remainder
    return function(node.tensor(a), node.tensor(b))


def _clip(node: NodeCall, x: Value, *ends: Value) -> Tensor | Codes:
    low, high = (
        _number(node.setting(name, (None, *ends), place + 1))
        for place, name in enumerate(("min", "max"))
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


def _number(given: Any) -> float | None:
    """Return a setting that is one number."""
    number = given[0] if isinstance(given, list) else given
    return None if number is None else float(number)


def _prelu(node: NodeCall, x: Value, slope: Value) -> Tensor:
    values, slopes = node.tensor(x), node.tensor(slope, "slope")
    if slopes.numel() == 1:
        return F.prelu(values, slopes.reshape(1))
    if values.dim() > 1 and slopes.numel() == values.shape[1] == slopes.shape[1 - values.dim()]:
        return F.prelu(values, slopes.reshape(-1))
    return torch.where(values < 0, values * slopes, values)


def _gelu(node: NodeCall, x: Value) -> Tensor:
    return F.gelu(node.tensor(x), approximate=node.get("approximate", "none"))


def _hard_sigmoid(node: NodeCall, x: Value) -> Tensor:
    alpha, beta = node.get("alpha", 0.2), node.get("beta", 0.5)
    values = node.tensor(x)
    if abs(alpha - 1 / 6) < 1e-6 and beta == 0.5:
        return F.hardsigmoid(values)
    return torch.clamp(alpha * values + beta, 0, 1)


def _selu(node: NodeCall, x: Value) -> Tensor:
    alpha = float(node.get("alpha", 1.6732632423543772))
    gamma = float(node.get("gamma", 1.0507009873554805))
    values = node.tensor(x)
    if abs(alpha - 1.6732632) < 1e-6 and abs(gamma - 1.0507009) < 1e-6:
        return F.selu(values)
    return gamma * F.elu(values, alpha)


def _shrink(node: NodeCall, x: Value) -> Tensor:
    bias, border, values = node.get("bias", 0.0), node.get("lambd", 0.5), node.tensor(x)
    if bias == 0:
        return F.hardshrink(values, border)
    if bias == border:
        return F.softshrink(values, border)
    zero = torch.zeros_like(values)
    return torch.where(
        values < -border, values + bias, torch.where(values > border, values - bias, zero)
    )


def _thresholded(node: NodeCall, x: Value) -> Tensor:
    return F.threshold(node.tensor(x), node.get("alpha", 1.0), 0.0)


def _relu(node: NodeCall, x: Value) -> Tensor:
    return F.relu(node.tensor(x))


def _swish(node: NodeCall, x: Value) -> Tensor:
    alpha, values = node.get("alpha", 1.0), node.tensor(x)
    return F.silu(values) if alpha == 1 else values * torch.sigmoid(alpha * values)


def _is_inf(node: NodeCall, x: Value) -> Tensor:
    values = node.tensor(x)
    above, below = node.get("detect_positive", 1), node.get("detect_negative", 1)
    if above and below:
        return torch.isinf(values)
    return values == (float("inf") if above else float("-inf"))


def _where(node: NodeCall, condition: Value, a: Value, b: Value) -> Tensor:
    return torch.where(node.tensor(condition), node.tensor(a), node.tensor(b))


def _chosen_sizes(condition: Any, a: Any, b: Any) -> Any:
    return np.where(condition.astype(bool), a, b)


def _bit_shift(node: NodeCall, a: Value, b: Value) -> Tensor:
    function = torch.bitwise_left_shift
    if node.get("direction") == "RIGHT":
        function = torch.bitwise_right_shift
    return function(node.tensor(a), node.tensor(b))


def _cast(node: NodeCall, x: Value, *like: Value) -> Any:
    from onnx import TensorProto, helper

    if like:
        return node.tensor(x).to(node.tensor(like[0]).dtype)
    kind = node.get("to")
    if isinstance(x, Constant) and x.array.dtype == object:
        return x
    try:
        array = np.zeros(0, dtype=helper.tensor_dtype_to_np_dtype(kind))
        dtype = torch.from_numpy(array).dtype
    except (TypeError, KeyError) as error:
        name = TensorProto.DataType.Name(kind).lower()
        raise node.refuse(f"numbers of type {name} are not known") from error
    if isinstance(x, Sums) and dtype.is_floating_point:
        return x
    if isinstance(x, Codes):
        raise node.refuse("integer codes have no other type; DequantizeLinear makes reals of them")
    if isinstance(x, Constant) and x.tensor is None:
        return Constant(x.array.astype(array.dtype))
    return node.tensor(x).to(dtype)


_SUM, _PRODUCT = _binary(operator.add, operator.add), _binary(operator.mul, operator.mul)
OPERATORS: dict[str, Function] = {
    "Abs": _unary(torch.abs),
    "Acos": _unary(torch.acos),
    "Acosh": _unary(torch.acosh),
    "Add": _add,
    "And": _binary(torch.logical_and, np.logical_and),
    "Asin": _unary(torch.asin),
    "Asinh": _unary(torch.asinh),
    "Atan": _unary(torch.atan),
    "Atanh": _unary(torch.atanh),
    "BitShift": _bit_shift,
    "BitwiseAnd": _binary(torch.bitwise_and),
    "BitwiseNot": _unary(torch.bitwise_not),
    "BitwiseOr": _binary(torch.bitwise_or),
    "BitwiseXor": _binary(torch.bitwise_xor),
    "Cast": _cast,
    "CastLike": _cast,
    "Ceil": _unary(torch.ceil),
    "Celu": _unary(F.celu, alpha=("alpha", 1.0)),
    "Clip": _clip,
    "Cos": _unary(torch.cos),
    "Cosh": _unary(torch.cosh),
    "Div": _binary(_divide, _divide_sizes),
    "Elu": _unary(F.elu, alpha=("alpha", 1.0)),
    "Equal": _binary(torch.eq, np.equal),
    "Erf": _unary(torch.erf),
    "Exp": _unary(torch.exp),
    "Floor": _unary(torch.floor),
    "Gelu": _gelu,
    "Greater": _binary(torch.gt, np.greater),
    "GreaterOrEqual": _binary(torch.ge, np.greater_equal),
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _unary(F.hardswish),
    "IsInf": _is_inf,
    "IsNaN": _unary(torch.isnan),
    "LeakyRelu": _unary(F.leaky_relu, negative_slope=("alpha", 0.01)),
    "Less": _binary(torch.lt, np.less),
    "LessOrEqual": _binary(torch.le, np.less_equal),
    "Log": _unary(torch.log),
    "Max": _many(torch.maximum, np.maximum),
    "Mean": _mean,
    "Min": _many(torch.minimum, np.minimum),
    "Mish": _unary(F.mish),
    "Mod": of_sizes(_mod, np.mod),
    "Mul": _mul,
    "Neg": of_sizes(_unary(torch.neg), np.negative),
    "Not": of_sizes(_unary(torch.logical_not), np.logical_not),
    "Or": _binary(torch.logical_or, np.logical_or),
    "PRelu": _prelu,
    "Pow": _binary(torch.pow),
    "Reciprocal": _unary(torch.reciprocal),
    "Relu": _relu,
    "Round": _unary(torch.round),
    "Selu": _selu,
    "Shrink": _shrink,
    "Sigmoid": _unary(torch.sigmoid),
    "Sign": _unary(torch.sign),
    "Sin": _unary(torch.sin),
    "Sinh": _unary(torch.sinh),
    "Softplus": _unary(F.softplus),
    "Softsign": _unary(F.softsign),
    "Sqrt": of_sizes(_unary(torch.sqrt), np.sqrt),
    "Sub": _binary(operator.sub, operator.sub),
    "Sum": _many(operator.add),
    "Swish": _swish,
    "Tan": _unary(torch.tan),
    "Tanh": _unary(torch.tanh),
    "ThresholdedRelu": _thresholded,
    "Where": of_sizes(_where, _chosen_sizes),
    "Xor": _binary(torch.logical_xor),
}
