"""Every implementation that runs here equals the reference on every bit."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mxint_data import KINDS, assert_same_bits, values_of_kind
from torch import Tensor

from mase_hw.kernels.mxint import Implementation, cpu, implementations, reference, selected

AVAILABLE = [each for each in implementations() if not each.reason and each.name != "reference"]
SHAPES = ((1, 1, 1), (1, 32, 32), (3, 77, 32), (4, 96, 32), (5, 64, 16), (2, 100, 7), (3, 33, 100))
DTYPES = (torch.float32, torch.bfloat16)
LINEAR = ("linear", "linear_both")
# Columns, outputs and block: with rests, and in whole packs.
LINEAR_SIZES = [
    *((77, 9, block) for block in (32, 16, 5, 64)),
    *((256, 40, 32), (1280, 21, 32), (64, 9, 64), (336, 17, 16)),
]


def on_device(implementation: Implementation, *tensors: Tensor | None) -> list[Any]:
    device = implementation.devices[0]
    return [None if tensor is None else tensor.to(device) for tensor in tensors]


@pytest.fixture(params=AVAILABLE, ids=lambda each: each.name)
def implementation(request):
    found: Implementation = request.param
    return found


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_quantize_and_back(implementation, kind, dtype):
    for rows, columns, block in SHAPES:
        values = values_of_kind(kind, rows, columns).to(dtype)
        codes, exponents = reference.quantize(values, block)
        found = implementation.function("quantize")(*on_device(implementation, values), block)
        assert_same_bits(found[0].cpu(), codes)
        assert_same_bits(found[1].cpu(), exponents)
        back = implementation.function("dequantize")(
            *on_device(implementation, codes, exponents), block, dtype
        )
        assert_same_bits(back.cpu(), reference.dequantize(codes, exponents, block, dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_code_under_every_exponent(implementation, dtype):
    codes = torch.arange(-128, 128, dtype=torch.int8).repeat(256, 1)
    exponents = torch.arange(256, dtype=torch.uint8)[:, None].repeat(1, 8)
    found = implementation.function("dequantize")(
        *on_device(implementation, codes, exponents), 32, dtype
    )
    assert_same_bits(found.cpu(), reference.dequantize(codes, exponents, 32, dtype))


@settings(max_examples=40, deadline=None)
@given(
    columns=st.integers(1, 200),
    rows=st.integers(0, 5),
    block=st.integers(1, 130),
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 1000),
)
def test_any_shape_and_block(columns, rows, block, kind, seed):
    values = values_of_kind(kind, rows, columns, seed)
    codes, exponents = reference.quantize(values, block)
    expected = reference.dequantize(codes, exponents, block, torch.float32)
    for each in AVAILABLE:
        found = each.function("quantize")(*on_device(each, values), block)
        assert_same_bits(found[0].cpu(), codes)
        assert_same_bits(found[1].cpu(), exponents)
        back = each.function("dequantize")(*found, block, torch.float32)
        assert_same_bits(back.cpu(), expected)


def test_strided_and_shifted_memory(implementation):
    base = values_of_kind("wide", 70, 67)
    for values in (base.t(), base[::2, 1::3], base.expand(2, 70, 67), base.flatten()[1:-2]):
        codes, exponents = reference.quantize(values, 32)
        found = implementation.function("quantize")(*on_device(implementation, values), 32)
        assert_same_bits(found[0].cpu(), codes)
        wide_codes = torch.stack([codes, codes], -1)[..., 0]
        wide_exponents = torch.stack([exponents, exponents], -1)[..., 0]
        back = implementation.function("dequantize")(
            *on_device(implementation, wide_codes, wide_exponents), 32, torch.bfloat16
        )
        assert_same_bits(back.cpu(), reference.dequantize(codes, exponents, 32, torch.bfloat16))


@pytest.mark.parametrize("shape", [(0,), (0, 32), (3, 0), (2, 0, 5)])
def test_empty(implementation, shape):
    (values,) = on_device(implementation, torch.empty(shape))
    codes, exponents = implementation.function("quantize")(values, 32)
    assert codes.shape == shape
    back = implementation.function("dequantize")(codes, exponents, 32, torch.float32)
    assert back.shape == shape


@pytest.mark.parametrize("operation", LINEAR)
@pytest.mark.parametrize("sizes", [(0, 32, 3), (2, 0, 3), (2, 32, 0), (0, 0, 0)], ids=str)
def test_empty_linear(implementation, operation, sizes):
    """No columns: a sum of nothing is zero, and the bias remains."""
    if operation not in implementation.operations:
        assert implementation.name in ("vectorized", "cuda")
        return
    rows, columns, outputs = sizes
    codes, exponents = reference.quantize(torch.ones(outputs, columns), 32)
    bias = torch.arange(outputs).float()
    for values in (torch.ones(rows, columns), torch.ones(1, rows, columns), torch.ones(columns)):
        for dtype in DTYPES:
            typed = (values.to(dtype), codes, exponents, bias.to(dtype))
            found = implementation.function(operation)(*on_device(implementation, *typed), 32)
            assert_same_bits(found.cpu(), getattr(reference, operation)(*typed, 32))
            assert found.shape == (*values.shape[:-1], outputs)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_large_results_that_bypass_the_cache(dtype):
    codes = torch.randint(-128, 128, (9 << 20,), dtype=torch.int8)
    exponents = torch.randint(0, 256, (codes.numel() // 32,), dtype=torch.uint8)
    found = selected("dequantize").function("dequantize")(codes, exponents, 32, dtype)
    for sample in (slice(0, 4096), slice(-4096, None), slice(5 << 20, (5 << 20) + 4096)):
        blocks = exponents.view(-1, 1).expand(-1, 32).flatten()[sample][::32]
        expected = reference.dequantize(codes[sample], blocks, 32, dtype)
        assert_same_bits(found[sample], expected)


def test_flushing_subnormals_elsewhere_changes_nothing():
    values = values_of_kind("subnormal", 4, 64)
    codes, exponents = reference.quantize(values, 32)
    expected = reference.dequantize(codes, exponents, 32, torch.float32)
    assert expected.count_nonzero()
    if not torch.set_flush_denormal(True):
        return  # this processor has no such mode
    try:
        native = next(each for each in AVAILABLE if each.name == "cpu")
        found_codes, found_exponents = native.function("quantize")(values, 32)
        found = native.function("dequantize")(codes, exponents, 32, torch.float32)
        bits = found.view(torch.int32)
    finally:
        torch.set_flush_denormal(False)
    assert torch.equal(found_codes, codes)
    assert torch.equal(found_exponents, exponents)
    assert torch.equal(bits, expected.view(torch.int32))


def exact_operands(
    rows: int, inputs: int, outputs: int, block: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Operands whose products and sums are exact in float32, so that no order of adding differs."""
    generator = torch.Generator().manual_seed(rows * inputs)
    values = torch.randint(-4, 5, (rows, inputs), generator=generator).to(dtype)
    codes = torch.randint(-127, 128, (outputs, inputs), dtype=torch.int8, generator=generator)
    shape = (outputs, -(-inputs // block))
    exponents = torch.randint(126, 129, shape, dtype=torch.uint8, generator=generator)
    bias = torch.randint(-4, 5, (outputs,), generator=generator).to(dtype)
    return values, codes, exponents, bias


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("sizes", LINEAR_SIZES, ids=str)
def test_linear(implementation, sizes, dtype):
    columns, outputs, block = sizes
    for rows in (1, 2, 3, 5, 7, 8, 13, 16, 40):
        values, codes, exponents, bias = exact_operands(rows, columns, outputs, block, dtype)
        for each_bias in (bias, None):
            operands = on_device(implementation, values, codes, exponents, each_bias)
            found = implementation.function("linear")(*operands, block)
            expected = reference.linear(values, codes, exponents, each_bias, block)
            assert_same_bits(found.cpu(), expected)


def test_linear_error_is_that_of_float_sums(implementation):
    torch.manual_seed(0)
    weight, values = torch.randn(48, 300), torch.randn(6, 300)
    codes, exponents = reference.quantize(weight, 32)
    decoded = reference.dequantize(codes, exponents, 32, torch.float32).double()
    operands = on_device(implementation, values, codes, exponents, None)
    found = implementation.function("linear")(*operands, 32).cpu().double()
    # |error| <= n u sum |x w|, Higham (2002), section 3.1, with u = 2**-24.
    bound = 300 * 2.0**-24 * (values.double().abs() @ decoded.abs().T)
    assert ((found - values.double() @ decoded.T).abs() <= bound).all()


@pytest.mark.parametrize("block", [32, 16, 5, 64])
@pytest.mark.parametrize("power", [0, 60, -60, -100])
def test_linear_both(implementation, block, power):
    if "linear_both" not in implementation.operations:
        assert implementation.name in ("vectorized", "cuda")
        return
    generator = torch.Generator().manual_seed(block)
    scale = 2.0**power
    values = torch.randn(5, 77, generator=generator) * scale
    weight = torch.randn(9, 77, generator=generator) * scale
    weight[2, 40] = torch.nan
    bias = torch.randn(9, generator=generator) * scale
    codes, exponents = reference.quantize(weight, block)
    for dtype in DTYPES:
        typed = (values.to(dtype), codes, exponents, bias.to(dtype))
        found = implementation.function("linear_both")(*on_device(implementation, *typed), block)
        expected = reference.linear_both(*typed, block)
        assert found.dtype == dtype
        assert torch.equal(found.cpu().isnan(), expected.isnan())
        assert torch.equal(found.cpu().nan_to_num(), expected.nan_to_num())


@pytest.mark.parametrize("block", [32, 16, 5])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_linear_at_the_ends_of_float32(dtype, block):
    """Outputs of one product each; torch's own bfloat16 layer would lose subnormals."""
    native = next(each for each in AVAILABLE if each.name == "cpu")
    powers = torch.tensor([-133.0, -126.0, -3.0, 0.0, 100.0, 120.0, 127.0]).exp2()
    values = torch.zeros(14, 70)
    for row, value in enumerate(
        (*powers.tolist(), *(-1.5 * powers[:-2]).tolist(), torch.inf, torch.nan)
    ):
        values[row, row * 5] = value
    codes = torch.randint(-128, 128, (256, 70), dtype=torch.int8)
    exponents = torch.arange(256, dtype=torch.uint8)[:, None].repeat(1, -(-70 // block))
    for rows in (values, *values.split(1)):
        typed = rows.to(dtype)
        found = native.function("linear")(typed, codes, exponents, None, block)
        weight = reference.dequantize(codes, exponents, block, torch.float32).double()
        expected = (typed.double() @ weight.T).float().to(dtype)
        assert torch.equal(found.isnan(), expected.isnan())
        assert torch.equal(found.nan_to_num(), expected.nan_to_num())


@pytest.mark.parametrize("path", range(3))
def test_every_instruction_set(path):
    """All but the widest of this processor are seldom chosen; each passes the tests above."""
    library = cpu._library()
    if path >= library.mase_mxint8_paths():
        return  # a narrower processor
    native = next(each for each in AVAILABLE if each.name == "cpu")
    library.mase_mxint8_choose(path)
    try:
        for dtype in DTYPES:
            test_every_code_under_every_exponent(native, dtype)
            test_large_results_that_bypass_the_cache(dtype)
            for kind in KINDS:
                test_quantize_and_back(native, kind, dtype)
            for sizes in LINEAR_SIZES:
                test_linear(native, sizes, dtype)
            for block in (32, 16, 5):
                test_linear_at_the_ends_of_float32(dtype, block)
        test_linear_error_is_that_of_float_sums(native)
        test_linear_both(native, 32, 0)
    finally:
        library.mase_mxint8_choose(library.mase_mxint8_paths() - 1)


def test_threads_do_not_change_results():
    values = values_of_kind("wide", 257, 1000)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            native = selected("quantize")
            codes, exponents = native.function("quantize")(values, 48)
            back = native.function("dequantize")(codes, exponents, 48, torch.float32)
            few = values[:7].nan_to_num()
            layers = (native.function(each)(few, codes, exponents, None, 48) for each in LINEAR)
            results.append((codes, exponents, back, *layers))
    finally:
        torch.set_num_threads(before)
    for result in results[1:]:
        for actual, expected in zip(result, results[0], strict=True):
            assert_same_bits(actual, expected)
