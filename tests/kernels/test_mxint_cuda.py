"""The CUDA sources: compiled by nvcc, and every thread of their tiles run on the host."""

import ctypes
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from mxint_data import BITS, KINDS, assert_same_bits, values_of_kind
from torch import Tensor

from mase_hw import _native
from mase_hw.errors import ToolError
from mase_hw.kernels.mxint import cuda, reference

EMULATOR = Path(__file__).with_name("emulate_cuda.cu")
SANITIZER = Path(__file__).with_name("sanitize_cuda.cu")
SANITIZE = "-fsanitize=address,-fno-sanitize-recover=all,-g"
BUILDABLE = _native.cuda_compiler() is not None and _native.cute_include() is not None


def build(
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
    architecture: str,
    headers: Sequence[Path] = cuda.HEADERS,
) -> Path | None:
    """Compile, or check that what is missing is named and return None."""
    include = f"-I{cuda.SOURCE.parent}"
    monkeypatch.setattr(_native, "CUDA_FLAGS", (*_native.CUDA_FLAGS, include))
    if BUILDABLE:
        return _native.build_cuda(source, headers, architecture)
    with pytest.raises(ToolError, match=r"nvcc was not found|CuTe headers were not found"):
        _native.build_cuda(source, headers, architecture)
    return None


def test_unavailable_without_a_device():
    assert torch.cuda.is_available() or cuda.unavailable() == "no CUDA device"


@pytest.mark.full
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_kernels_compile(architecture, monkeypatch):
    library = build(cuda.SOURCE, monkeypatch, architecture)
    if library is not None:
        content = library.read_bytes()
        for name in ("quantize", "dequantize", "linear"):
            assert f"mase_mxint8_cuda_{name}".encode() in content


@pytest.mark.full
def test_hopper_kernel_compiles(monkeypatch):
    library = build(cuda.HOPPER_SOURCE, monkeypatch, "sm_90a")
    if library is not None:
        assert b"mase_mxint8_hopper_linear" in library.read_bytes()


@pytest.mark.full
def test_every_thread_of_the_tiles(monkeypatch):
    library = build(EMULATOR, monkeypatch, "sm_90")
    if library is None:
        return
    emulator = ctypes.CDLL(str(library))
    check_dequantize(emulator)
    check_encode(emulator)
    check_linear(emulator)
    check_linear_decodes_every_code(emulator)
    check_linear_error(emulator)


def check_dequantize(emulator: ctypes.CDLL) -> None:
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
    assert vectorized == {0, 1, 2}


def check_encode(emulator: ctypes.CDLL) -> None:
    for kind in KINDS:
        values = values_of_kind(kind, 50, 64)
        expected_codes, exponents = reference.quantize(values, 32)
        codes = torch.empty_like(expected_codes)
        each = exponents.repeat_interleave(32, dim=-1).contiguous()
        emulator.emulate_encode(*pointers(values, each, codes), ctypes.c_int64(codes.numel()))
        assert_same_bits(codes, expected_codes)


def emulate_linear(
    emulator: ctypes.CDLL,
    values: Tensor,
    codes: Tensor,
    exponents: Tensor,
    bias: Tensor | None,
    block: int,
) -> tuple[Tensor, int]:
    """Return the result, and the rows of values that the tile had room for (0: no packs)."""
    result = torch.full((len(values), len(codes)), 7, dtype=values.dtype)
    room = emulator.emulate_linear(
        *pointers(values, codes, exponents, bias, result),
        *(ctypes.c_int64(size) for size in (len(values), *codes.shape, block)),
        values.element_size(),
    )
    return result, room


def shifted(tensor: Tensor) -> Tensor:
    """Return the same elements in memory that misses the 16-byte alignment."""
    memory = torch.empty(tensor.numel() + 1, dtype=tensor.dtype)
    memory[1:] = tensor.flatten()
    return memory[1:].view(tensor.shape)


def assert_same_numbers(actual: Tensor, expected: Tensor) -> None:
    """Compare bits, but not which NaN it is."""
    assert_same_bits(*(each.masked_fill(each.isnan(), torch.nan) for each in (actual, expected)))


def check_linear(emulator: ctypes.CDLL) -> None:
    """Sums that are exact have the reference's bits, whatever the order of adding."""
    rooms = set()
    generator = torch.Generator().manual_seed(0)
    shapes = ((1, 1, 1), (3, 77, 32), (17, 300, 7), (40, 272, 16), (5, 4112, 32), (33, 1040, 48))
    shapes += ((8, 1536, 1024), (19, 0, 32), (37, 2816, 32), (52, 2304, 32))
    for dtype in BITS:
        for outputs, columns, block in shapes:
            size = (outputs, columns)
            codes = torch.randint(-128, 128, size, dtype=torch.int8, generator=generator)
            size = (outputs, -(-columns // block))
            exponents = torch.randint(126, 128, size, dtype=torch.uint8, generator=generator)
            exponents[-1, -1:] = 255
            for batch in (1, 2, 4, 5, 8, 9, 16):
                values = torch.randint(-1, 2, (batch, columns), generator=generator).to(dtype)
                bias = torch.randint(-4, 5, (outputs,), generator=generator).to(dtype)
                weight = reference.dequantize(codes, exponents, block, torch.float32).double()
                expected = values.double() @ weight.T
                operands = (values, codes, exponents)
                found, room = emulate_linear(emulator, *operands, None, block)
                assert_same_numbers(found, expected.float().to(dtype))
                with_bias = (expected + bias.double()).float().to(dtype)
                for move in (lambda tensor: tensor, shifted):
                    moved = [move(each) for each in (*operands, bias)]
                    found, room = emulate_linear(emulator, *moved, block)
                    assert_same_numbers(found, with_bias)
                    assert room == 0 or room >= batch
                    rooms.add((dtype, room))
    assert rooms == {(torch.float32, room) for room in (0, 1, 4, 8, 16)} | {
        (torch.bfloat16, room) for room in (0, 8, 16)
    }


def check_linear_decodes_every_code(emulator: ctypes.CDLL) -> None:
    """The identity times a matrix of every code under every exponent is that matrix."""
    codes = torch.arange(-128, 128, dtype=torch.int8).repeat(256).view(-1, 16)
    exponents = torch.arange(256, dtype=torch.uint8).repeat_interleave(16)[:, None].contiguous()
    for dtype in BITS:
        weight = reference.dequantize(codes, exponents, 16, dtype)
        # Zero times infinity, which only -128 under 254 decodes to, is NaN.
        weight[weight.isinf().any(-1)] = torch.nan
        weight[weight == 0] = 0  # the sum of zeros is positive
        for move in (lambda tensor: tensor, shifted):
            operands = (torch.eye(16, dtype=dtype), move(codes), exponents)
            found, _ = emulate_linear(emulator, *operands, None, 16)
            found = found.T.contiguous()
            infinite = weight.isnan() & found.isinf()
            assert infinite.sum() <= 1  # the only infinity, alone in its sum
            assert_same_numbers(torch.where(infinite, torch.nan, found), weight)


def check_linear_error(emulator: ctypes.CDLL) -> None:
    """|error| <= n u sum |x w|, Higham (2002), section 3.1, with u = 2**-24."""
    generator = torch.Generator().manual_seed(1)
    for columns, block in ((4112, 32), (300, 12)):
        codes, exponents = reference.quantize(torch.randn(20, columns, generator=generator), block)
        values = torch.randn(6, columns, generator=generator)
        weight = reference.dequantize(codes, exponents, block, torch.float32).double()
        found, _ = emulate_linear(emulator, values, codes, exponents, None, block)
        bound = columns * 2.0**-24 * (values.double().abs() @ weight.abs().T)
        assert ((found.double() - values.double() @ weight.T).abs() <= bound).all()


def test_many_rows_on_the_device():
    """Sums that are exact, so that no order of adding differs; the bias makes them round."""
    if cuda.unavailable():
        return
    generator = torch.Generator().manual_seed(2)
    for batch, outputs, columns in ((600, 3000, 192), (257, 8584, 64), (1000, 4096, 2112)):
        size = (outputs, columns)
        codes = torch.randint(-127, 128, size, dtype=torch.int8, generator=generator)
        size = (outputs, columns // 32)
        exponents = torch.randint(126, 128, size, dtype=torch.uint8, generator=generator)
        exponents[-1, -1] = 255
        values = torch.randint(-1, 2, (batch, columns), generator=generator).to(torch.bfloat16)
        bias = torch.randint(-4, 5, (outputs,), generator=generator).to(torch.bfloat16)
        operands = [each.cuda() for each in (values, codes, exponents)]
        weight = reference.dequantize(codes, exponents, 32, torch.float32).double().cuda()
        assert cuda._fits_hopper(*operands, 32) == (torch.cuda.get_device_capability() == (9, 0))
        for each in (None, bias.cuda()):
            expected = values.cuda().double() @ weight.T + (0 if each is None else each.double())
            found = cuda.linear(*operands, each, 32)
            assert_same_numbers(found, expected.float().to(torch.bfloat16))


@pytest.mark.full
def test_address_sanitizer(monkeypatch):
    flags = [each for each in _native.CUDA_FLAGS if each not in ("-shared", "-O3")]
    monkeypatch.setattr(_native, "CUDA_FLAGS", (*flags, "-O0", "-Xcompiler", SANITIZE))
    program = build(SANITIZER, monkeypatch, "sm_90", (*cuda.HEADERS, EMULATOR))
    if program is None:
        return
    clean = subprocess.run([str(program)], capture_output=True, text=True)
    assert clean.returncode == 0, clean.stderr
    broken = subprocess.run([str(program), "overflow"], capture_output=True, text=True)
    assert broken.returncode != 0
    assert "heap-buffer-overflow" in broken.stderr


def pointers(*tensors: Tensor | None) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(None if each is None else each.data_ptr()) for each in tensors]
