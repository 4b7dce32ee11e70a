"""Data at the ends of what MXINT8 defines."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

BITS = {torch.float32: torch.int32, torch.bfloat16: torch.int16}


def values_of_kind(kind: str, rows: int, columns: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    shape = (rows, columns)
    bits = torch.randint(0, 2**32, shape, dtype=torch.int64, generator=generator).to(torch.int32)
    normal = torch.randn(shape, generator=generator)
    if kind == "normal":
        return normal
    if kind == "any bits":
        return bits.view(torch.float32)
    if kind == "wide":
        powers = torch.randint(-145, 125, shape, generator=generator)
        return normal * torch.exp2(powers.double()).float()
    if kind == "subnormal":
        return (bits & 0x807FFFFF - (1 << 32)).view(torch.float32)
    if kind == "huge":
        return normal.sign() * torch.finfo(torch.float32).max
    if kind == "zero":
        return torch.zeros(shape)
    if kind == "infinite":
        return torch.where(torch.arange(columns) % 40 == 3, torch.inf, normal)
    if kind == "nan":
        return torch.where(torch.arange(columns) % 40 == 39, torch.nan, normal)
    if kind == "ties":
        codes = torch.randint(-127, 128, shape, generator=generator) + 0.5
        return codes / 64
    raise AssertionError(kind)


KINDS = ("normal", "any bits", "wide", "subnormal", "huge", "zero", "infinite", "nan", "ties")


def assert_same_bits(actual: Tensor, expected: Tensor) -> None:
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    bits = BITS.get(actual.dtype, actual.dtype)
    left, right = actual.contiguous().view(bits), expected.contiguous().view(bits)
    wrong = (left != right).nonzero()
    if len(wrong):
        index = tuple(wrong[0].tolist())
        pytest.fail(
            f"{len(wrong)} of {left.numel()} elements differ; first at {index}: "
            f"got {actual[index].item()!r} ({left[index].item():#x}), "
            f"expected {expected[index].item()!r} ({right[index].item():#x})"
        )
