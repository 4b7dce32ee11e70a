"""The CUDA sources: compiled by nvcc, and every thread of the tile kernel run on the host."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
import torch
from mxint_data import KINDS, assert_same_bits, values_of_kind
from torch import Tensor

from mase_hw.errors import ToolError
from mase_hw.kernels import _build
from mase_hw.kernels.mxint import cuda, reference

EMULATOR = Path(__file__).with_name("emulate_dequantize.cu")
BUILDABLE = _build.cuda_compiler() is not None and _build.cute_include() is not None


def build(source: Path, monkeypatch: pytest.MonkeyPatch, architecture: str) -> Path | None:
    """Compile, or check that what is missing is named and return None."""
    include = f"-I{cuda.SOURCE.parent}"
    monkeypatch.setattr(_build, "CUDA_FLAGS", (*_build.CUDA_FLAGS, include))
    if BUILDABLE:
        return _build.build_cuda(source, cuda.HEADERS, architecture)
    with pytest.raises(ToolError, match=r"nvcc was not found|CuTe headers were not found"):
        _build.build_cuda(source, cuda.HEADERS, architecture)
    return None


def test_unavailable_without_a_device() -> None:
    assert torch.cuda.is_available() or cuda.unavailable() == "no CUDA device"


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_kernels_compile(architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    library = build(cuda.SOURCE, monkeypatch, architecture)
    if library is not None:
        assert b"mase_mxint8_cuda_dequantize" in library.read_bytes()


@pytest.mark.slow
def test_every_thread_of_the_tile_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    library = build(EMULATOR, monkeypatch, "sm_90")
    if library is None:
        return
    emulator = ctypes.CDLL(str(library))
    vectorized = set()
    shapes = ((1, 1, 1), (3, 77, 32), (40, 272, 16), (17, 300, 7), (8, 64, 32), (50, 1040, 12))
    for dtype, bits in ((torch.float32, torch.int32), (torch.bfloat16, torch.int16)):
        codes = torch.arange(-128, 128, dtype=torch.int8).repeat(256, 1)
        exponents = torch.arange(256, dtype=torch.uint8)[:, None].repeat(1, 8)
        cases = [(codes, exponents, 32)]
        for rows, columns, block in (*shapes, (33, 512, 1024)):
            codes = torch.randint(-128, 128, (rows, columns), dtype=torch.int8)
            exponents = torch.randint(0, 256, (rows, -(-columns // block)), dtype=torch.uint8)
            cases.append((codes, exponents, block))
        for codes, exponents, block in cases:
            out = torch.full(codes.shape, 7, dtype=bits)
            wide = emulator.emulate_dequantize(
                *pointers(codes, exponents, out),
                *(ctypes.c_int64(size) for size in (*codes.shape, block)),
                out.element_size(),
            )
            vectorized.add(wide)
            expected = reference.dequantize(codes, exponents, block, dtype)
            assert_same_bits(out.view(dtype), expected)
    assert vectorized == {0, 1}
    for kind in KINDS:
        values = values_of_kind(kind, 50, 64)
        expected_codes, exponents = reference.quantize(values, 32)
        codes = torch.empty_like(expected_codes)
        each = exponents.repeat_interleave(32, dim=-1).contiguous()
        emulator.emulate_encode(*pointers(values, each, codes), ctypes.c_int64(codes.numel()))
        assert_same_bits(codes, expected_codes)


def pointers(*tensors: Tensor) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(tensor.data_ptr()) for tensor in tensors]
