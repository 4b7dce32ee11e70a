"""Exact powers of two: exponents of reals, scaling, and shifts of integers that round to even."""

from __future__ import annotations

import torch
from torch import Tensor

# Mantissa bits, exponent bias and the integer type of the same size.
_LAYOUT = {torch.float32: (23, 127, torch.int32), torch.float64: (52, 1023, torch.int64)}


def working(values: Tensor) -> Tensor:
    """Return `values` in a dtype whose bits are read here: float32 or float64."""
    return values if values.dtype in _LAYOUT else values.float()


def exponent_of(values: Tensor) -> Tensor:
    """Return `floor(log2(abs(values)))`; one below the smallest normal's for subnormals and zero.

    Infinities and NaN give one above the largest exponent of the dtype.
    """
    mantissa, bias, integer = _LAYOUT[values.dtype]
    bits = values.view(integer)
    return ((bits >> mantissa) & (2 * bias + 1)) - bias


def is_upper_half(values: Tensor) -> Tensor:
    """True if `abs(values) >= 1.5 * 2**exponent_of(values)`, for normal numbers."""
    mantissa, bias, integer = _LAYOUT[values.dtype]
    bits = values.view(integer)
    normal = ((bits >> mantissa) & (2 * bias + 1)) > 0
    return normal & ((bits >> (mantissa - 1)) & 1 > 0)


def power_of_two(exponents: Tensor, dtype: torch.dtype) -> Tensor:
    """Return `2**exponents`, which must be normal numbers of `dtype`."""
    mantissa, bias, integer = _LAYOUT[dtype]
    return ((exponents.to(integer) + bias) << mantissa).view(dtype)


def scale(values: Tensor, exponents: Tensor) -> Tensor:
    """Return `values * 2**exponents` for exponents up to twice the dtype's, rounded once."""
    half = exponents >> 1
    first = values * power_of_two(half, values.dtype)
    return first * power_of_two(exponents - half, values.dtype)


def top_bit(magnitudes: Tensor) -> Tensor:
    """Return `floor(log2(m))` of int64 `m` from 0 up to `2**62`; -1023 for zero."""
    exponent = exponent_of(magnitudes.double()).to(torch.int64)
    # The conversion to float64 may have rounded up to a power of two.
    above = (torch.ones_like(magnitudes) << exponent.clamp(0, 62)) > magnitudes
    return torch.where(above & (exponent > 0), exponent - 1, exponent)


def shift_right_even(magnitudes: Tensor, shift: Tensor) -> Tensor:
    """Return non-negative `magnitudes / 2**shift` to nearest, ties to even; shift from 0."""
    shift = shift.clamp(0, 63)
    right = shift.clamp(max=62)
    floor = torch.where(shift > 62, torch.zeros_like(magnitudes), magnitudes >> right)
    rest = torch.where(shift > 62, magnitudes, magnitudes - (floor << right))
    half = torch.ones_like(magnitudes) << (shift - 1).clamp(min=0)
    up = (rest > half) | ((rest == half) & (floor & 1 == 1))
    return floor + (up & (shift > 0))


def scaled_integer(magnitudes: Tensor, exponents: Tensor, limit_bits: int) -> Tensor:
    """Return `magnitudes * 2**exponents` rounded to even; beyond `limit_bits` bits, all ones.

    Args:
        magnitudes: non-negative int64 up to `2**62`.
        exponents: int64, of any sign.
        limit_bits: bits of the largest result, below 62.
    """
    limit = (1 << limit_bits) - 1
    left = exponents.clamp(0, limit_bits)
    over = (exponents > 0) & (top_bit(magnitudes) + exponents >= limit_bits)
    shifted = torch.where(over, torch.zeros_like(magnitudes), magnitudes) << left
    rounded = torch.where(exponents < 0, shift_right_even(magnitudes, -exponents), shifted)
    return torch.where(over, torch.full_like(rounded, limit), rounded.clamp(max=limit))
