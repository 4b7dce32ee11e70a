"""MXINT8 as plain torch expressions: runs on every device, and is what kernels must beat."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from mase_hw.formats import joined
from mase_hw.kernels.mxint._checks import block_count
from mase_hw.kernels.mxint.reference import CODE_LIMIT, EXPONENT_NAN

DEVICE_TYPES = ("cpu", "cuda")
DECODE_BIAS = 133  # E8M0 bias 127 plus six fraction bits


def unavailable() -> str | None:
    """Return None: it runs wherever torch does."""
    return None


def quantize(values: Tensor, block: int) -> tuple[Tensor, Tensor]:
    """Return codes and exponents; see `reference.quantize`."""
    columns = values.shape[-1]
    blocks = _split(values.float(), block)
    # The magnitude bits of floats order as integers do, infinities and NaNs on top.
    magnitude_bits = blocks.view(torch.int32) & 0x7FFFFFFF
    exponents = magnitude_bits.amax(-1, keepdim=True) >> 23
    # 2**(133 - e) leaves float32 for small exponents: two exact steps.
    power = DECODE_BIAS - exponents
    first = _power_of_two(power.clamp(max=127))
    second = _power_of_two((power - 127).clamp(min=0))
    codes = torch.round(blocks * first * second).clamp_(-CODE_LIMIT, CODE_LIMIT)
    codes = torch.where(exponents == EXPONENT_NAN, 0.0, codes).to(torch.int8)
    return (
        joined(codes, columns).contiguous(),
        exponents.squeeze(-1).to(torch.uint8),
    )


def dequantize(codes: Tensor, exponents: Tensor, block: int, dtype: torch.dtype) -> Tensor:
    """Return values in `dtype`; see `reference.dequantize`."""
    scales = _scales(exponents.device)[exponents.to(torch.int32)].unsqueeze(-1)
    if codes.shape[-1] % block == 0:
        values = (codes.reshape(*exponents.shape, block) * scales).flatten(-2)
    else:
        values = joined(_split(codes, block) * scales, codes.shape[-1]).contiguous()
    if dtype == torch.float32:
        return values
    return (values.view(torch.int32) >> 16).to(torch.int16).view(dtype)


def linear(
    values: Tensor, codes: Tensor, exponents: Tensor, bias: Tensor | None, block: int
) -> Tensor:
    """Return the weight-only linear layer; see `reference.linear`."""
    weight = dequantize(codes, exponents, block, values.dtype)
    return torch.nn.functional.linear(values, weight, bias)


@cache
def _scales(device: torch.device) -> Tensor:
    """Return the factor of a code under each exponent, float32 `[256]`."""
    exponents = torch.arange(256, dtype=torch.int64)
    scales = ((exponents - DECODE_BIAS + 1023) << 52).view(torch.float64).float()
    scales[EXPONENT_NAN] = torch.nan
    return scales.to(device)


def _power_of_two(power: Tensor) -> Tensor:
    """Return float32 `2**power` for int32 powers from -126 to 127."""
    return ((power + 127) << 23).view(torch.float32)


def _split(values: Tensor, block: int) -> Tensor:
    """Return `[..., blocks, block]`, the last block padded with zeros."""
    columns = values.shape[-1]
    blocks = block_count(columns, block)
    padded = torch.nn.functional.pad(values, (0, blocks * block - columns)).contiguous()
    return padded.reshape(*values.shape[:-1], blocks, block)
