"""MXINT8 on CUDA devices: the CuTe kernels of `cuda.cu`, compiled by nvcc at first use."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from mase_hw._native import build_cuda, cuda_compiler, cute_include, load_library
from mase_hw.errors import ToolError
from mase_hw.kernels.mxint._checks import block_count

SOURCE = Path(__file__).with_name("cuda.cu")
HOPPER_SOURCE = SOURCE.with_name("linear_hopper.cu")
HEADERS = tuple(
    SOURCE.with_name(f"{name}.cuh")
    for name in ("bits", "matrix", "dequantize", "linear", "linear_mma")
)
DEVICE_TYPES = ("cuda",)
# Up to here a layer is bound by reading its weight, which the kernel reads as one byte an element;
# with more rows, decoding once before torch's matrix product feeds the matrix units.
MAX_FUSED_ROWS = 16
# Up to here, a kernel of its own decodes on the way to the matrix units of capability 9.0. With
# more rows, decoding once is a small part of the time.
MAX_HOPPER_ROWS = 3072
HOPPER, HOPPER_TILE = (9, 0), (256, 128)


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
    _launch("quantize", (values, codes, exponents), (*_rows_and_columns(values), block), values)
    return codes, exponents


def dequantize(codes: Tensor, exponents: Tensor, block: int, dtype: torch.dtype) -> Tensor:
    """Return values in `dtype`; see `reference.dequantize`."""
    codes, exponents = codes.contiguous(), exponents.contiguous()
    result = torch.empty(codes.shape, dtype=dtype, device=codes.device)
    _launch("dequantize", (codes, exponents, result), (*_rows_and_columns(codes), block), result)
    return result


def linear(
    values: Tensor, codes: Tensor, exponents: Tensor, bias: Tensor | None, block: int
) -> Tensor:
    """Return the weight-only linear layer; see `reference.linear`."""
    values, bias = values.detach(), None if bias is None else bias.detach()
    batch, columns = _rows_and_columns(values)
    outputs = codes.shape[0]
    values, codes, exponents = values.contiguous(), codes.contiguous(), exponents.contiguous()
    bias = None if bias is None else bias.contiguous()
    hopper = _fits_hopper(values, codes, exponents, block)
    if batch > MAX_FUSED_ROWS and not hopper:
        weight = dequantize(codes, exponents, block, values.dtype)
        return torch.nn.functional.linear(values, weight, bias)
    result = torch.empty((*values.shape[:-1], outputs), dtype=values.dtype, device=values.device)
    tensors = (values, codes, exponents, bias, result)
    if hopper:
        _launch("linear", tensors, (batch, outputs, columns), values, HOPPER_SOURCE)
    else:
        _launch("linear", tensors, (batch, outputs, columns, block), values)
    return result


def _fits_hopper(values: Tensor, codes: Tensor, exponents: Tensor, block: int) -> bool:
    """Return whether `linear_hopper.cu` takes the operands, which are contiguous, and is faster."""
    (batch, columns), outputs = _rows_and_columns(values), codes.shape[0]
    if (
        not MAX_FUSED_ROWS < batch <= MAX_HOPPER_ROWS
        or values.dtype != torch.bfloat16
        or block != 32
        or columns == 0
        or columns % 64
        or outputs % 8
        or (values.data_ptr() | codes.data_ptr()) % 16
        or exponents.data_ptr() % 2
        or torch.cuda.get_device_capability(values.device) != HOPPER
    ):
        return False
    tiles = -(-batch // HOPPER_TILE[0]) * -(-outputs // HOPPER_TILE[1])
    processors = torch.cuda.get_device_properties(values.device).multi_processor_count
    return bool(2 * tiles > processors)


def _rows_and_columns(tensor: Tensor) -> tuple[int, int]:
    return tensor.shape[:-1].numel(), tensor.shape[-1]


def _launch(
    name: str,
    tensors: tuple[Tensor | None, ...],
    sizes: tuple[int, ...],
    floats: Tensor,
    source: Path = SOURCE,
) -> None:
    """Run a kernel on the current stream of the device and for the dtype of `floats`."""
    device = floats.device
    prefix = "mase_mxint8_hopper" if source == HOPPER_SOURCE else "mase_mxint8_cuda"
    with torch.cuda.device(device):
        library = _library(source, torch.cuda.get_device_capability(device))
        code = library[f"{prefix}_{name}"](
            *(ctypes.c_void_p(None if each is None else each.data_ptr()) for each in tensors),
            *(ctypes.c_int64(size) for size in sizes),
            ctypes.c_int(floats.element_size()),
            ctypes.c_void_p(torch.cuda.current_stream().cuda_stream),
        )
    if code != 0:
        describe = library[f"{prefix}_error"]
        describe.restype = ctypes.c_char_p
        raise ToolError(f"mxint8 {name} on {device}: {describe(code).decode()}")


@cache
def _library(source: Path, capability: tuple[int, int]) -> ctypes.CDLL:
    major, minor = capability
    # The instructions of Hopper's matrix units belong to this one architecture.
    feature = "a" if source == HOPPER_SOURCE else ""
    return load_library(build_cuda(source, HEADERS, f"sm_{major}{minor}{feature}"))
