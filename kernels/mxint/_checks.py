"""What the arguments of an MXINT8 operation must be, checked once for all implementations."""

from __future__ import annotations

import torch
from torch import Tensor

from mase_hw.errors import FormatError

DEFAULT_BLOCK = 32
# A block's dot product, 127 * 127 * block, stays exact in float32 up to 1040.
MAX_BLOCK = 1024
# What kernels read and write.
KERNEL_DTYPES = (torch.float32, torch.bfloat16)
# What operators take; what kernels do not know is computed in float32 and rounded once.
FLOAT_DTYPES = (*KERNEL_DTYPES, torch.float16)


def block_count(columns: int, block: int) -> int:
    """Return the number of blocks of a row."""
    return -(-columns // block)


def check_block(block: int) -> None:
    """Refuse a block size that the kernels do not define.

    Raises:
        FormatError: when `block` is not an integer from 1 to 1024.
    """
    if not isinstance(block, int) or isinstance(block, bool) or not 1 <= block <= MAX_BLOCK:
        raise FormatError(f"mxint8: block is {block!r}; allowed: an integer from 1 to {MAX_BLOCK}")


def check_values(values: Tensor, what: str = "values") -> None:
    """Refuse what cannot be quantized.

    Raises:
        FormatError: for a scalar, no dense tensor, or a dtype that is not among `FLOAT_DTYPES`.
    """
    check_dense(**{what: values})
    check_dtype(values.dtype, what)
    if values.dim() == 0:
        raise FormatError(f"mxint8: {what} is a scalar; allowed: at least one dimension")


def check_dense(**tensors: Tensor) -> None:
    """Refuse what is no tensor, and tensors that are not laid out by strides."""
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise FormatError(f"mxint8: {name} is {type(tensor).__name__}; allowed: a torch.Tensor")
        if tensor.layout != torch.strided:
            raise FormatError(f"mxint8: {name} is {tensor.layout}; allowed: torch.strided")


def check_dtype(dtype: torch.dtype, what: str = "dtype") -> None:
    """Refuse dtypes that operators neither take nor give."""
    if dtype not in FLOAT_DTYPES:
        allowed = ", ".join(str(each) for each in FLOAT_DTYPES)
        raise FormatError(f"mxint8: {what} is {dtype}; allowed: {allowed}")


def check_codes(codes: Tensor, exponents: Tensor, block: int) -> None:
    """Refuse codes and exponents that do not belong together.

    Raises:
        FormatError: for another dtype, device, or shape.
    """
    check_dense(codes=codes, exponents=exponents)
    if codes.dtype != torch.int8 or exponents.dtype != torch.uint8:
        raise FormatError(
            f"mxint8: codes are {codes.dtype} and exponents {exponents.dtype}; "
            "allowed: torch.int8 and torch.uint8"
        )
    check_same_device(codes=codes, exponents=exponents)
    if codes.dim() == 0:
        raise FormatError("mxint8: codes are a scalar; allowed: at least one dimension")
    expected = (*codes.shape[:-1], block_count(codes.shape[-1], block))
    if tuple(exponents.shape) != expected:
        raise FormatError(
            f"mxint8: exponents have shape {tuple(exponents.shape)}; codes of shape "
            f"{tuple(codes.shape)} in blocks of {block} need {expected}"
        )


def check_linear(
    values: Tensor, codes: Tensor, exponents: Tensor, bias: Tensor | None, block: int
) -> None:
    """Refuse operands of a linear layer that do not belong together.

    Raises:
        FormatError: for another dtype, device, or shape.
    """
    check_values(values)
    check_codes(codes, exponents, block)
    check_same_device(values=values, weight=codes)
    if codes.dim() != 2 or values.shape[-1] != codes.shape[1]:
        raise FormatError(
            f"mxint8 linear: values have shape {tuple(values.shape)} and the weight "
            f"{tuple(codes.shape)}; allowed: [..., in] and [out, in]"
        )
    if bias is None:
        return
    check_dense(bias=bias)
    check_same_device(values=values, bias=bias)
    if tuple(bias.shape) != (codes.shape[0],) or bias.dtype != values.dtype:
        raise FormatError(
            f"mxint8 linear: the bias is {bias.dtype} {tuple(bias.shape)}; "
            f"allowed: {values.dtype} {(codes.shape[0],)}"
        )


def check_same_device(**tensors: Tensor) -> None:
    """Refuse tensors on different devices."""
    devices = {name: tensor.device for name, tensor in tensors.items()}
    if len(set(devices.values())) > 1:
        places = ", ".join(f"{name} on {device}" for name, device in devices.items())
        raise FormatError(f"mxint8: {places}; allowed: one device for all")
