"""MXINT8 as torch operators `torch.ops.mase_hw.mxint8_*`, for eager, compiled and exported code."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mase_hw.kernels.mxint._checks import (
    DEFAULT_BLOCK,
    FLOAT_DTYPES,
    KERNEL_DTYPES,
    block_count,
    check_block,
    check_codes,
    check_dtype,
    check_linear,
    check_values,
)
from mase_hw.kernels.mxint.dispatch import selected

_NAMESPACE = "mase_hw"


def _known(values: Tensor) -> Tensor:
    """Return values in a dtype of the kernels; float16 is exact in float32."""
    return values if values.dtype in KERNEL_DTYPES else values.float()


@torch.library.custom_op(f"{_NAMESPACE}::mxint8_quantize", mutates_args=())
def _quantize(values: Tensor, block: int) -> tuple[Tensor, Tensor]:
    function = selected("quantize", values.device).function("quantize")
    codes, exponents = function(_known(values), block)
    return codes, exponents


@_quantize.register_fake
def _quantize_fake(values: Tensor, block: int) -> tuple[Tensor, Tensor]:
    shape = (*values.shape[:-1], block_count(values.shape[-1], block))
    codes = values.new_empty(values.shape, dtype=torch.int8)
    return codes, values.new_empty(shape, dtype=torch.uint8)


@torch.library.custom_op(f"{_NAMESPACE}::mxint8_dequantize", mutates_args=())
def _dequantize(codes: Tensor, exponents: Tensor, block: int, dtype: torch.dtype) -> Tensor:
    function = selected("dequantize", codes.device).function("dequantize")
    used = dtype if dtype in KERNEL_DTYPES else torch.float32
    result: Tensor = function(codes, exponents, block, used)
    return result.to(dtype)


@_dequantize.register_fake
def _dequantize_fake(codes: Tensor, exponents: Tensor, block: int, dtype: torch.dtype) -> Tensor:
    return codes.new_empty(codes.shape, dtype=dtype)


@torch.library.custom_op(f"{_NAMESPACE}::mxint8_linear", mutates_args=())
def _linear(
    values: Tensor,
    codes: Tensor,
    exponents: Tensor,
    bias: Tensor | None,
    block: int,
    quantize_values: bool,
) -> Tensor:
    operation = "linear_both" if quantize_values else "linear"
    function = selected(operation, values.device).function(operation)
    scaled_bias = None if bias is None else _known(bias)
    result: Tensor = function(_known(values), codes, exponents, scaled_bias, block)
    return result.to(values.dtype).contiguous()


@_linear.register_fake
def _linear_fake(
    values: Tensor,
    codes: Tensor,
    exponents: Tensor,
    bias: Tensor | None,
    block: int,
    quantize_values: bool,
) -> Tensor:
    return values.new_empty((*values.shape[:-1], codes.shape[0]))


def _linear_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, codes, exponents, bias, block, _ = inputs
    ctx.save_for_backward(codes, exponents)
    ctx.block, ctx.has_bias = block, bias is not None


def _linear_backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    """Return gradients of values and bias; rounding the values passes the gradient on."""
    codes, exponents = ctx.saved_tensors
    values_gradient = bias_gradient = None
    if ctx.needs_input_grad[0]:
        values_gradient = gradient @ _dequantize(codes, exponents, ctx.block, gradient.dtype)
    if ctx.has_bias and ctx.needs_input_grad[3]:
        bias_gradient = gradient.flatten(0, -2).sum(0) if gradient.dim() > 1 else gradient
    return values_gradient, None, None, bias_gradient, None, None


_linear.register_autograd(_linear_backward, setup_context=_linear_setup)


def quantize(values: Tensor, block: int = DEFAULT_BLOCK) -> tuple[Tensor, Tensor]:
    """Quantize float32, bfloat16 or float16 `values` along the last dimension.

    Args:
        values: `[..., columns]`, any strides.
        block: neighbours that share an exponent; a last, shorter block is allowed.

    Returns:
        int8 codes `[..., columns]` and uint8 exponents `[..., ceil(columns / block)]`.

    Raises:
        FormatError: for another dtype, a scalar, or a block size out of range.

    Examples:
        >>> codes, exponents = quantize(torch.tensor([1.0, -0.5, 0.25, 3.0]), block=2)
        >>> codes, exponents
        (tensor([ 64, -32,   8,  96], dtype=torch.int8), tensor([127, 128], dtype=torch.uint8))
    """
    check_block(block)
    check_values(values)
    codes, exponents = _quantize(values, block)
    return codes, exponents


def dequantize(
    codes: Tensor,
    exponents: Tensor,
    block: int = DEFAULT_BLOCK,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Return the values of `codes`, exactly, in float32 or bfloat16, or rounded to float16.

    Values beyond the range of float16 become infinite.

    Raises:
        FormatError: when shapes, dtypes or devices do not belong together.
    """
    check_block(block)
    check_dtype(dtype)
    check_codes(codes, exponents, block)
    result: Tensor = _dequantize(codes, exponents, block, dtype)
    return result


def linear(
    values: Tensor,
    codes: Tensor,
    exponents: Tensor,
    bias: Tensor | None = None,
    block: int = DEFAULT_BLOCK,
    *,
    quantize_values: bool = False,
) -> Tensor:
    """Return `values @ weight.T + bias` for a weight `[out, in]` in MXINT8.

    Differentiable with respect to `values` and `bias`. Inside `torch.autocast` both are cast to its
    dtype first, as those of `torch.nn.functional.linear` are.

    Args:
        values: float32, bfloat16 or float16 `[..., in]`; float16 is computed in float32.
        codes: int8 `[out, in]`.
        exponents: uint8 `[out, ceil(in / block)]`.
        bias: `[out]` in the dtype of `values`.
        block: elements that share an exponent.
        quantize_values: also round `values` to MXINT8 and multiply as integers.

    Raises:
        FormatError: when shapes, dtypes or devices do not belong together.
    """
    check_block(block)
    values, bias = _autocast(values), None if bias is None else _autocast(bias)
    check_linear(values, codes, exponents, bias, block)
    result: Tensor = _linear(values, codes, exponents, bias, block, quantize_values)
    return result


def _autocast(tensor: Tensor) -> Tensor:
    """Cast what can be cast; what is no tensor of floats is left for the checks to refuse."""
    if not isinstance(tensor, Tensor) or tensor.dtype not in FLOAT_DTYPES:
        return tensor
    kind = tensor.device.type
    if not torch.amp.is_autocast_available(kind) or not torch.is_autocast_enabled(kind):
        return tensor
    return tensor.to(torch.get_autocast_dtype(kind))
