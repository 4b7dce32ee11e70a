"""Layers on integer codes of ONNX Runtime's own domain, which its quantiser makes.

Source: "Contrib Operators", onnxruntime, docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from mase_hw.importers.onnx._families import functions
from mase_hw.importers.onnx._values import Codes, Function, NodeCall, Sums, Value
from mase_hw.importers.onnx.ops.quantised import (
    dequantized,
    matmul_integer,
    quantized,
    real_bias,
    real_values,
    with_axis,
)

DOMAINS = ("com.microsoft",)
# What one operand is: codes, scale, zero point.
GIVEN = 3


def _reals(node: NodeCall, given: Sequence[Value]) -> list[Tensor]:
    return [real_values(node, *given[i : i + GIVEN]) for i in range(0, len(given), GIVEN)]


def _between(kind: str, count: int = 1) -> Function:
    """Return ONNX's own operator on the reals of so many operands, and a rounding."""

    def function(node: NodeCall, *given: Value) -> Codes:
        reals = _reals(node, given[: GIVEN * count])
        if node.get("channels_last"):
            raise node.refuse("channels_last is 1; allowed is 0")
        return quantized(node, functions()["", kind](node, *reals), *given[GIVEN * count :])

    return function


def _softmax(node: NodeCall, *given: Value) -> Codes:
    (values,) = _reals(node, given[:GIVEN])
    plain = replace(node, version=int(node.get("opset", node.version)))
    return quantized(node, functions()["", "Softmax"](plain, values), *given[GIVEN:])


def _concat(node: NodeCall, scale: Value, point: Value, *given: Value) -> Codes:
    joined = torch.cat(_reals(node, given), int(node.get("axis", 0)))
    return quantized(node, joined, scale, point)


def _gemm(node: NodeCall, *given: Value) -> Codes:
    axis = with_axis(node, 0 if node.get("transB") else 1)
    operands: list[Value] = [real_values(node, *given[:3]), real_values(axis, *given[3:6])]
    bias, scale, point = (*given[6:], None, None, None)[:3]
    if bias is not None:
        operands.append(real_bias(node, bias, given[1], given[4]))
    if scale is None:
        raise node.refuse("it has no scale of its result; allowed are results that are codes")
    return quantized(node, functions()["", "Gemm"](node, *operands), scale, point)


def _scaled_product(node: NodeCall, a: Value, b: Value, *given: Value) -> Sums:
    a_scale, b_scale, a_point, b_point, bias = (*given, None, None, None)[:5]
    sums: Sums | None = matmul_integer(node, a, b, a_point, b_point)
    for scale in (a_scale, b_scale):
        sums = sums and sums.times(scale)
    if bias is not None:
        sums = sums and sums.plus(bias)
    if sums is None:
        raise node.refuse("its scales and bias must be constants, of all columns or each, above 0")
    return sums


OPERATORS: dict[str, Function] = {
    "DequantizeLinear": dequantized,
    "MatMulIntegerToFloat": _scaled_product,
    "QGemm": _gemm,
    "QLinearAdd": _between("Add", 2),
    "QLinearAveragePool": _between("AveragePool"),
    "QLinearConcat": _concat,
    "QLinearGlobalAveragePool": _between("GlobalAveragePool"),
    "QLinearLeakyRelu": _between("LeakyRelu"),
    "QLinearMul": _between("Mul", 2),
    "QLinearSigmoid": _between("Sigmoid"),
    "QLinearSoftmax": _softmax,
    "QuantizeLinear": quantized,
}
_DYNAMIC = "it finds a scale as it runs; quantise the model statically"
REFUSED = dict.fromkeys(("DynamicQuantizeMatMul", "DynamicQuantizeLSTM"), _DYNAMIC)
