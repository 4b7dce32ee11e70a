"""MXINT8 on CUDA devices: the CuTe kernels of `cuda.cu`, compiled by nvcc at first use."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from mase_hw.errors import ToolError
from mase_hw.kernels._build import build_cuda, cuda_compiler, cute_include, load_library
from mase_hw.kernels.mxint._checks import block_count

SOURCE = Path(__file__).with_name("cuda.cu")
HEADERS = tuple(SOURCE.with_name(name) for name in ("bits.cuh", "dequantize.cuh"))
DEVICE_TYPES = ("cuda",)


def unavailable() -> str | None:
    """Return why the kernels cannot run here, None when they can. Builds nothing."""
    if not torch.cuda.is_available():
        return "no CUDA device"
    if cuda_compiler() is None:
        return "nvcc is not on PATH; install the CUDA toolkit"
    if cute_include() is None:
        return "the CuTe headers are not installed; pip install nvidia-cutlass"
    return None


def quantize(values: Tensor, block: int) -> tuple[Tensor, Tensor]:
    """Return codes and exponents; see `reference.quantize`."""
    values = values.detach().contiguous()
    columns = values.shape[-1]
    codes = torch.empty(values.shape, dtype=torch.int8, device=values.device)
    shape = (*values.shape[:-1], block_count(columns, block))
    exponents = torch.empty(shape, dtype=torch.uint8, device=values.device)
    _launch("quantize", values, (values, codes, exponents), block, values.element_size())
    return codes, exponents


def dequantize(codes: Tensor, exponents: Tensor, block: int, dtype: torch.dtype) -> Tensor:
    """Return values in `dtype`; see `reference.dequantize`."""
    codes, exponents = codes.contiguous(), exponents.contiguous()
    result = torch.empty(codes.shape, dtype=dtype, device=codes.device)
    _launch("dequantize", codes, (codes, exponents, result), block, result.element_size())
    return result


def _launch(
    name: str, shaped: Tensor, tensors: tuple[Tensor, ...], block: int, element_bytes: int
) -> None:
    """Run a kernel over rows of `shaped` on the current stream of its device."""
    columns = shaped.shape[-1]
    rows = shaped.shape[:-1].numel()
    with torch.cuda.device(shaped.device):
        library = _library(torch.cuda.get_device_capability(shaped.device))
        code = library[f"mase_mxint8_cuda_{name}"](
            *(ctypes.c_void_p(tensor.data_ptr()) for tensor in tensors),
            *(ctypes.c_int64(size) for size in (rows, columns, block)),
            ctypes.c_int(element_bytes),
            ctypes.c_void_p(torch.cuda.current_stream().cuda_stream),
        )
    if code != 0:
        describe = library.mase_mxint8_cuda_error
        describe.restype = ctypes.c_char_p
        raise ToolError(f"mxint8 {name} on {shaped.device}: {describe(code).decode()}")


@cache
def _library(capability: tuple[int, int]) -> ctypes.CDLL:
    major, minor = capability
    return load_library(build_cuda(SOURCE, HEADERS, f"sm_{major}{minor}"))
