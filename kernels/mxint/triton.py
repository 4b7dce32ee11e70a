"""MXINT8 in Triton: dequantize, quantize, and linear layers fused with the dequantization.

With `TRITON_INTERPRET=1` in the environment the same kernels run on CPU tensors.
"""

from __future__ import annotations

import importlib.util
import os
from typing import Any

import torch
from torch import Tensor

from mase_hw.kernels.mxint._checks import block_count

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE_TYPES = ("cpu",) if INTERPRETED else ("cuda",)
# Up to here a layer is bound by reading its weight, which the kernel reads as one byte an element;
# with more rows, decoding once before torch's matrix product is faster.
DECODE_ROWS = 16
# Of a program of `linear`: small tiles fill the chip.
TILE_OUTPUTS, TILE_COLUMNS = 32, 256
ELEMENTS_PER_PROGRAM = 2048
_BITS = {torch.float32: torch.int32, torch.bfloat16: torch.int16}


def unavailable() -> str | None:
    """Return why the kernels cannot run here, None when they can."""
    if importlib.util.find_spec("triton") is None:
        return "triton is not installed; pip install triton"
    if not INTERPRETED and not torch.cuda.is_available():
        return "no CUDA device, and TRITON_INTERPRET is not 1"
    return None


def quantize(values: Tensor, block: int) -> tuple[Tensor, Tensor]:
    """Return codes and exponents; see `reference.quantize`."""
    kernels = _kernels()
    values = values.detach().contiguous()
    columns = values.shape[-1]
    blocks = block_count(columns, block)
    codes = torch.empty(values.shape, dtype=torch.int8, device=values.device)
    exponents = torch.empty((*values.shape[:-1], blocks), dtype=torch.uint8, device=values.device)
    total = exponents.numel()
    if total:
        padded = kernels.next_power_of_2(block)
        per_program = max(1, ELEMENTS_PER_PROGRAM // padded)
        kernels.quantize[(-(-total // per_program),)](
            values.view(_BITS[values.dtype]),
            codes,
            exponents,
            total,
            columns,
            blocks,
            block,
            padded,
            values.dtype == torch.bfloat16,
            per_program,
        )
    return codes, exponents


def dequantize(codes: Tensor, exponents: Tensor, block: int, dtype: torch.dtype) -> Tensor:
    """Return values in `dtype`; see `reference.dequantize`."""
    kernels = _kernels()
    codes, exponents = codes.contiguous(), exponents.contiguous()
    result = torch.empty(codes.shape, dtype=dtype, device=codes.device)
    total = codes.numel()
    if total:
        columns = codes.shape[-1]
        kernels.dequantize[(-(-total // ELEMENTS_PER_PROGRAM),)](
            codes,
            exponents,
            result.view(_BITS[dtype]),
            total,
            columns,
            exponents.shape[-1],
            block,
            columns % block == 0,
            dtype == torch.bfloat16,
            ELEMENTS_PER_PROGRAM,
        )
    return result


def linear(
    values: Tensor, codes: Tensor, exponents: Tensor, bias: Tensor | None, block: int
) -> Tensor:
    """Return the weight-only linear layer; see `reference.linear`."""
    kernels = _kernels()
    flat = _flat(values).contiguous()
    bias = None if bias is None else bias.detach().contiguous()
    rows, columns = flat.shape
    outputs = codes.shape[0]
    if rows > DECODE_ROWS:
        weight = dequantize(codes, exponents, block, values.dtype)
        return torch.nn.functional.linear(values.detach(), weight, bias)
    result = torch.empty((rows, outputs), dtype=values.dtype, device=values.device)
    if result.numel():
        kernels.linear[(-(-outputs // TILE_OUTPUTS),)](
            flat,
            codes.contiguous(),
            exponents.contiguous(),
            flat if bias is None else bias,
            result,
            rows,
            outputs,
            columns,
            exponents.shape[-1],
            block,
            bias is not None,
            values.dtype == torch.bfloat16,
            INTERPRETED,
            _groups(TILE_COLUMNS, block),
            DECODE_ROWS,
            TILE_OUTPUTS,
            TILE_COLUMNS,
            num_warps=2,
            num_stages=4,
        )
    return result.reshape(*values.shape[:-1], outputs)


def linear_both(
    values: Tensor, codes: Tensor, exponents: Tensor, bias: Tensor | None, block: int
) -> Tensor:
    """Return the linear layer with both operands in MXINT8; see `reference.linear_both`."""
    kernels = _kernels()
    flat = _flat(values)
    value_codes, value_exponents = quantize(flat, block)
    rows, columns = flat.shape
    outputs = codes.shape[0]
    result = torch.empty((rows, outputs), dtype=values.dtype, device=values.device)
    if result.numel():
        tile_m, tile_n = (16, 32) if rows <= DECODE_ROWS else (64, 64)
        grid = (-(-rows // tile_m) * -(-outputs // tile_n),)
        kernels.linear_both[grid](
            value_codes,
            value_exponents,
            codes.contiguous(),
            exponents.contiguous(),
            value_codes if bias is None else bias.detach().contiguous(),
            result,
            rows,
            outputs,
            columns,
            exponents.shape[-1],
            block,
            bias is not None,
            tile_m,
            tile_n,
            max(32, kernels.next_power_of_2(block)),
        )
    return result.reshape(*values.shape[:-1], outputs)


def _flat(values: Tensor) -> Tensor:
    """Return `[rows, columns]`; a size of -1 is ambiguous where there are no columns."""
    return values.detach().reshape(values.shape[:-1].numel(), values.shape[-1])


def _groups(columns: int, block: int) -> int:
    """Return the number of blocks in `columns` of a tile, 0 where blocks straddle its edge."""
    if block % columns == 0:
        return 1
    whole = columns % block == 0 and block >= 16  # a power of two, because `columns` is one
    return columns // block if whole else 0


def _kernels() -> Any:
    from mase_hw.kernels.mxint import _triton_kernels

    return _triton_kernels
