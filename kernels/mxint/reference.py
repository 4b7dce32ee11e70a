"""MXINT8 in plain torch: the definition that every kernel equals on every bit.

A row of `columns` values is cut into blocks of `block` neighbours (32 in the standard; the last
block of a row is shorter when `block` does not divide `columns`). A block is one E8M0 byte `e`
and one two's complement INT8 code per value, with six fraction bits:

    value = code * 2**-6 * 2**(e - 127)

Quantization of a block, with `m` its largest magnitude:

    e    = floor(log2(m)) - emax + 127, at least 0     emax = 0 for INT8
    code = round(value / 2**(e - 127) * 2**6)          ties to even, clamped to [-127, 127]

- The standard permits leaving code -128 unused for symmetry; it is never made here, and decodes to
  -2 * 2**(e - 127) when it arrives from elsewhere.
- All-zero blocks have e = 0 and codes 0. Magnitudes under 2**-127 share e = 0.
- e = 255 is NaN: every value of the block decodes to the quiet NaN (0x7FC00000, 0x7FC0 in bfloat16)
  whatever its code. INT8 has no infinity,
  so a block that holds an infinity or a NaN becomes e = 255 with codes 0; nothing that was not
  finite silently turns into a number.
- Every code but one decodes exactly to float32 and to bfloat16, subnormals included: a code has
  7 significant bits, and 2**-133 is the smallest step of both the format and bfloat16. The
  exception is code -128 at e = 254, whose -2**128 rounds to minus infinity.

Source: OCP Microscaling Formats (MX) Specification v1.0 (2023), sections 5.3.4 (INT8), 5.4.1
(E8M0) and 6.3 (conversion from a vector of scalars).
"""

from __future__ import annotations

import torch
from torch import Tensor

from mase_hw.kernels.mxint._checks import block_count

DEVICE_TYPES = ("cpu", "cuda")
FRACTION_BITS = 6
EXPONENT_BIAS = 127
EXPONENT_NAN = 255
CODE_LIMIT = 127


def unavailable() -> str | None:
    """Return None: it runs wherever torch does."""
    return None


def quantize(values: Tensor, block: int) -> tuple[Tensor, Tensor]:
    """Return int8 codes `[..., columns]` and uint8 exponents `[..., ceil(columns / block)]`."""
    blocks = _split(values.double(), block)
    largest = blocks.abs().amax(-1, keepdim=True)
    finite = torch.isfinite(blocks).all(-1, keepdim=True)
    # frexp gives largest = f * 2**k with f in [0.5, 1), so floor(log2(largest)) = k - 1.
    _, power = torch.frexp(torch.where(finite, largest, 1.0))
    exponents = torch.where(largest > 0, power - 1 + EXPONENT_BIAS, 0).clamp(min=0)
    scaled = blocks * _power_of_two(FRACTION_BITS + EXPONENT_BIAS - exponents)
    codes = torch.where(finite, torch.round(scaled).clamp(-CODE_LIMIT, CODE_LIMIT), 0.0)
    exponents = torch.where(finite, exponents, EXPONENT_NAN)
    return (
        _join(codes, values.shape).to(torch.int8),
        exponents.squeeze(-1).to(torch.uint8),
    )


def dequantize(codes: Tensor, exponents: Tensor, block: int, dtype: torch.dtype) -> Tensor:
    """Return `[..., columns]` values in `dtype`."""
    blocks = _split(codes.double(), block)
    power = exponents.to(torch.int64).unsqueeze(-1) - EXPONENT_BIAS - FRACTION_BITS
    values = (blocks * _power_of_two(power)).to(dtype)
    values = values.masked_fill(exponents.unsqueeze(-1) == EXPONENT_NAN, torch.nan)
    return _join(values, codes.shape).contiguous()


def linear(
    values: Tensor, codes: Tensor, exponents: Tensor, bias: Tensor | None, block: int
) -> Tensor:
    """Return `values @ dequantize(weight).T + bias` (weight-only quantization, W8A16/W8A32)."""
    weight = dequantize(codes, exponents, block, values.dtype)
    return torch.nn.functional.linear(values, weight, bias)


def linear_both(
    values: Tensor, codes: Tensor, exponents: Tensor, bias: Tensor | None, block: int
) -> Tensor:
    """Return the linear layer with both operands in MXINT8 (W8A8).

    The dot product of two blocks is an exact integer; blocks are added in float32 in ascending
    order, each sum rounded once, then the bias. The order is part of the definition, which makes
    the result reproducible on every bit.
    """
    rows = values.reshape(values.shape[:-1].numel(), values.shape[-1])
    value_codes, value_exponents = quantize(rows, block)
    left = _split(value_codes.double(), block)  # [rows, blocks, block]
    right = _split(codes.double(), block)  # [out, blocks, block]
    dots = torch.einsum("rbk,obk->rob", left, right)
    power = value_exponents[:, None].to(torch.int64) + exponents.to(torch.int64)
    terms = (dots * _power_of_two(power - 2 * (EXPONENT_BIAS + FRACTION_BITS))).float()
    invalid = (value_exponents[:, None] == EXPONENT_NAN) | (exponents == EXPONENT_NAN)
    terms = torch.where(invalid, torch.nan, terms)
    total = torch.zeros(terms.shape[:2], dtype=torch.float32, device=values.device)
    for index in range(terms.shape[-1]):
        total = total + terms[..., index]
    if bias is not None:
        total = total + bias.float()
    return total.to(values.dtype).reshape(*values.shape[:-1], codes.shape[0])


def _power_of_two(power: Tensor) -> Tensor:
    """Return the exact float64 `2**power` of integers from -1022 to 1023."""
    return ((power.to(torch.int64) + 1023) << 52).view(torch.float64)


def _split(values: Tensor, block: int) -> Tensor:
    """Return `[..., blocks, block]`, the last block padded with zeros."""
    columns = values.shape[-1]
    blocks = block_count(columns, block)
    padded = torch.nn.functional.pad(values, (0, blocks * block - columns))
    return padded.reshape(*values.shape[:-1], blocks, block)


def _join(blocks: Tensor, shape: torch.Size) -> Tensor:
    joined = blocks.reshape(*shape[:-1], blocks.shape[-2] * blocks.shape[-1])
    return joined[..., : shape[-1]]
