"""MXINT8 on the CPU: the compiled kernels of `cpu.cpp`, called on torch's own memory."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from mase_hw._native import build_cpp, cpp_compiler, load_library
from mase_hw.errors import ToolError
from mase_hw.kernels.mxint._checks import block_count

SOURCE = Path(__file__).with_name("cpu.cpp")
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
    function = _library()[f"mase_mxint8_quantize_{_suffix(values.dtype)}"]
    function(
        *_pointers(values, codes, exponents),
        *_integers(_rows(values), columns, block),
        _threads(values.numel()),
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
    function = _library()[f"mase_mxint8_dequantize_{_suffix(dtype)}"]
    function(
        *_pointers(codes, exponents, result),
        *_integers(_rows(codes), codes.shape[-1], block),
        _threads(codes.numel()),
    )
    return result


def linear(
    values: Tensor, codes: Tensor, exponents: Tensor, bias: Tensor | None, block: int
) -> Tensor:
    """Return the weight-only linear layer; see `reference.linear`."""
    values = values.detach()
    if values.dtype != torch.float32 or _rows(values) > MAX_FUSED_ROWS:
        weight = dequantize(codes, exponents, block, values.dtype)
        return torch.nn.functional.linear(values, weight, bias)
    values, codes, exponents = values.contiguous(), codes.contiguous(), exponents.contiguous()
    bias = None if bias is None else bias.detach().contiguous()
    result = torch.empty((*values.shape[:-1], codes.shape[0]))
    _library().mase_mxint8_linear_float32(
        *_pointers(values, codes, exponents, bias, result),
        *_integers(_rows(values), *codes.shape, block),
        _threads(codes.numel()),
    )
    return result


def linear_both(
    values: Tensor, codes: Tensor, exponents: Tensor, bias: Tensor | None, block: int
) -> Tensor:
    """Return the linear layer with both operands in MXINT8; see `reference.linear_both`."""
    value_codes, value_exponents = quantize(values, block)
    codes, exponents = codes.contiguous(), exponents.contiguous()
    bias = None if bias is None else bias.detach().float().contiguous()
    result = torch.empty((*values.shape[:-1], codes.shape[0]))
    _library().mase_mxint8_linear_both_float32(
        *_pointers(value_codes, value_exponents, codes, exponents, bias, result),
        *_integers(_rows(values), *codes.shape, block),
        _threads(codes.numel()),
    )
    return result.to(values.dtype)


@cache
def _library() -> ctypes.CDLL:
    return load_library(build_cpp(SOURCE))


def _suffix(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _rows(values: Tensor) -> int:
    return int(torch.Size(values.shape[:-1]).numel())


def _pointers(*tensors: Tensor | None) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(None if each is None else each.data_ptr()) for each in tensors]


def _integers(*values: int) -> list[ctypes.c_int64]:
    return [ctypes.c_int64(value) for value in values]


def _threads(elements: int) -> ctypes.c_int:
    return ctypes.c_int(torch.get_num_threads() if elements >= MIN_PARALLEL_ELEMENTS else 1)
