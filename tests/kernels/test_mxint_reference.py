"""The definition itself, against exact rational arithmetic and torch's own E8M0."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mase_hw.kernels.mxint import reference

finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


def exact_value(code: int, exponent: int) -> Fraction:
    return Fraction(code, 64) * Fraction(2) ** (exponent - 127)


def oracle(block: list[float]) -> tuple[list[int], int]:
    largest = max(abs(Fraction(value)) for value in block)
    if largest == 0:
        return [0] * len(block), 0
    power = largest.numerator.bit_length() - largest.denominator.bit_length()
    power -= Fraction(2) ** power > largest
    exponent = max(power + 127, 0)
    step = exact_value(1, exponent)
    # Python's round of a Fraction is to nearest, ties to even.
    codes = [max(-127, min(127, round(Fraction(value) / step))) for value in block]
    return codes, exponent


@settings(max_examples=300, deadline=None)
@given(st.lists(finite, min_size=1, max_size=9))
def test_quantize_is_the_definition(block):
    codes, exponents = reference.quantize(torch.tensor([block]), len(block))
    assert (codes[0].tolist(), exponents[0].item()) == oracle(block)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_code_under_every_exponent(dtype):
    codes = torch.arange(-128, 128, dtype=torch.int8).repeat(255, 1)
    exponents = torch.arange(255, dtype=torch.uint8)[:, None]
    values = reference.dequantize(codes, exponents, 256, dtype)
    for row in range(255):
        for column in range(256):
            found, code = values[row, column].item(), column - 128
            if (row, code) == (254, -128):
                assert found == -math.inf
            else:
                assert Fraction(found) == exact_value(code, row)


def test_scales_are_e8m0():
    exponents = torch.arange(256, dtype=torch.uint8)
    ones = torch.full((256, 1), 64, dtype=torch.int8)
    values = reference.dequantize(ones, exponents[:, None], 1, torch.float32)[:, 0]
    expected = exponents.view(torch.float8_e8m0fnu).float()
    torch.testing.assert_close(values, expected, rtol=0, atol=0, equal_nan=True)


def test_one_bad_value_spoils_its_block_alone():
    values = torch.ones(1, 96)
    values[0, 40] = torch.inf
    values[0, 70] = torch.nan
    codes, exponents = reference.quantize(values, 32)
    assert exponents.tolist() == [[127, 255, 255]]
    assert codes[0, 32:].count_nonzero() == 0
    assert reference.dequantize(codes, exponents, 32, torch.float32)[0, 32:].isnan().all()


def test_linear_both_is_exact_integer_blocks():
    torch.manual_seed(0)
    values, weight = torch.randn(3, 70), torch.randn(5, 70)
    codes, exponents = reference.quantize(weight, 32)
    left = reference.dequantize(*reference.quantize(values, 32), 32, torch.float32)
    right = reference.dequantize(codes, exponents, 32, torch.float32)
    found = reference.linear_both(values, codes, exponents, None, 32)
    # Three float32 additions of exact terms, each within half a unit in the last place.
    torch.testing.assert_close(
        found.double(), left.double() @ right.double().T, rtol=1e-6, atol=1e-6
    )
