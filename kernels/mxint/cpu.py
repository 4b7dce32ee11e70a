"""MXINT8 on the CPU: the compiled kernels of `cpu.cpp`, called on torch's own memory."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mase_hw._native import build_cpp, cpp_compiler, load_library
from mase_hw.errors import ToolError
from mase_hw.kernels.mxint._checks import block_count

SOURCE = Path(__file__).with_name("cpu.cpp")
HEADERS = (SOURCE.with_name("cpu_lanes.h"),)
# Up to here a layer is bound by reading its weight, which the fused kernel reads as one byte an
# element; with more rows, decoding once before torch's own matrix product is faster.
MAX_FUSED_ROWS = 64
# Below this many elements starting threads costs more than it saves.
MIN_PARALLEL_ELEMENTS = 1 << 15


DEVICE_TYPES = ("cpu",)


def unavailable() -> str | None:
    """Return why the kernels cannot run here, None when they can. Builds them."""
    if cpp_compiler() is None:
        return "no C++ compiler; install g++ or set CXX"
    try:
        _library()
    except ToolError as error:
        return str(error)
    return None


def quantize(values: Tensor, block: int) -> tuple[Tensor, Tensor]:
    """Return codes and exponents; see `reference.quantize`."""
    values = values.detach().contiguous()
    columns = values.shape[-1]
    blocks = block_count(columns, block)
    codes = torch.empty(values.shape, dtype=torch.int8)
    exponents = torch.empty((*values.shape[:-1], blocks), dtype=torch.uint8)
    _call(
        "quantize", codes, values.dtype, (values, codes, exponents), (_rows(values), columns, block)
    )
    return codes, exponents


def dequantize(
    codes: Tensor, exponents: Tensor, block: int, dtype: torch.dtype, out: Tensor | None = None
) -> Tensor:
    """Return values in `dtype`; see `reference.dequantize`.

    Args:
        codes: int8 `[..., columns]`.
        exponents: uint8 `[..., blocks]`.
        block: elements that share an exponent.
        dtype: float32 or bfloat16.
        out: dense memory to write into, of the shape of `codes`.
    """
    codes, exponents = codes.contiguous(), exponents.contiguous()
    result = torch.empty(codes.shape, dtype=dtype) if out is None else out
    sizes = (_rows(codes), codes.shape[-1], block)
    _call("dequantize", codes, dtype, (codes, exponents, result), sizes)
    return result


def linear(
    values: Tensor, codes: Tensor, exponents: Tensor, bias: Tensor | None, block: int
) -> Tensor:
    """Return the weight-only linear layer; see `reference.linear`."""
    values = values.detach()
    if _rows(values) > MAX_FUSED_ROWS:
        weight = dequantize(codes, exponents, block, values.dtype)
        return torch.nn.functional.linear(values, weight, bias)
    values, codes, exponents = values.contiguous(), codes.contiguous(), exponents.contiguous()
    bias = None if bias is None else bias.detach().contiguous()
    result = torch.empty((*values.shape[:-1], codes.shape[0]), dtype=values.dtype)
    tensors = (values, codes, exponents, bias, result)
    _call("linear", codes, values.dtype, tensors, (_rows(values), *codes.shape, block))
    return result


def linear_both(
    values: Tensor, codes: Tensor, exponents: Tensor, bias: Tensor | None, block: int
) -> Tensor:
    """Return the linear layer with both operands in MXINT8; see `reference.linear_both`."""
    value_codes, value_exponents = quantize(values, block)
    codes, exponents = codes.contiguous(), exponents.contiguous()
    bias = None if bias is None else bias.detach().contiguous()
    result = torch.empty((*values.shape[:-1], codes.shape[0]), dtype=values.dtype)
    tensors = (value_codes, value_exponents, codes, exponents, bias, result)
    _call("linear_both", codes, values.dtype, tensors, (_rows(values), *codes.shape, block))
    return result


def _call(
    name: str,
    codes: Tensor,
    dtype: torch.dtype,
    tensors: Sequence[Tensor | None],
    sizes: Sequence[int],
) -> None:
    """Run a kernel on floats of `dtype`, with threads when `codes` are many."""
    pointers = [None if tensor is None else tensor.data_ptr() for tensor in tensors]
    threads = torch.get_num_threads() if codes.numel() >= MIN_PARALLEL_ELEMENTS else 1
    _kernel(name, len(pointers), len(sizes))(*pointers, *sizes, dtype == torch.bfloat16, threads)


@cache
def _kernel(name: str, tensors: int, sizes: int) -> Any:
    function = _library()[f"mase_mxint8_{name}"]
    integers = [*[ctypes.c_int64] * sizes, *[ctypes.c_int] * 2]
    function.argtypes = [*[ctypes.c_void_p] * tensors, *integers]
    return function


@cache
def _library() -> ctypes.CDLL:
    return load_library(build_cpp(SOURCE, headers=HEADERS))


def _rows(values: Tensor) -> int:
    return int(values.shape[:-1].numel())
