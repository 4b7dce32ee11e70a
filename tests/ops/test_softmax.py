"""Softmax against float64: how far its integers may be off, and what is exact."""

import pytest
import torch

from mase_hw.approximation.reciprocal import Reciprocal
from mase_hw.approximation.softmax import Softmax
from mase_hw.formats.fixed import Fixed

ROWS = 500


def rows(operand: Fixed, size: int) -> torch.Tensor:
    """Return rows of codes over the whole range, over parts of it, and all equal."""
    generator = torch.Generator().manual_seed(size)
    whole = operand.random_codes((ROWS, size), generator)
    near = torch.randint(-6, 7, (ROWS, size), generator=generator)
    equal = operand.random_codes((ROWS, 1), generator).expand(-1, size)
    return torch.cat([whole, whole >> 2, whole >> 4, near, equal])


@pytest.mark.parametrize("size", [1, 2, 5, 64, 197])
@pytest.mark.parametrize(("result", "bar"), [(Fixed(8, 6), 1.0), (Fixed(16, 14), 2.0)])
@pytest.mark.parametrize("operand", [Fixed(8, 4), Fixed(8, 2), Fixed(12, 8), Fixed(16, 12)])
def test_results_are_near_those_of_float64(operand, result, bar, size):
    codes = rows(operand, size)
    found = result.decode(Softmax(operand, result, size).evaluate(codes))
    exact = torch.softmax(operand.decode(codes), -1)
    assert ((found - exact).abs() * 2.0**result.frac_width).max() <= bar


@pytest.mark.parametrize("operand", [Fixed(8, 4), Fixed(16, 12)])
def test_the_results_of_equal_elements_and_of_one_that_dominates_are_exact(operand):
    result = Fixed(9, 8, signed=False)
    arithmetic = Softmax(operand, result, 4)
    equal = torch.full((1, 4), operand.minimum_code)
    assert arithmetic.evaluate(equal).tolist() == [[64, 64, 64, 64]]
    equal[0, 2] = operand.maximum_code
    assert arithmetic.evaluate(equal).tolist() == [[0, 0, 256, 0]]


def test_formats_that_its_tables_cannot_serve_are_refused():
    assert "at most 22" in Softmax(Fixed(24, 8), Fixed(8, 7), 4).problems[0]
    assert not Softmax(Fixed(8, 4), Fixed(30, 26), 4).problems
    (problem,) = Softmax(Fixed(8, 4), Fixed(30, 27), 4).problems
    assert "27 fraction bits; rows of 4 allow at most 26" in problem


@pytest.mark.parametrize("fraction", [8, 11, 12, 20])
def test_a_reciprocal_is_two_of_its_last_place_off_at_most(fraction):
    reciprocal = Reciprocal(24, 3, fraction)
    numbers = torch.randint(1 << 24, 1 << 27, (20_000,), generator=torch.Generator().manual_seed(1))
    numbers = torch.cat([numbers, 1 << torch.arange(24, 28)])
    found = reciprocal.evaluate(numbers).double() * 2.0**-fraction
    exact = 2.0**24 / numbers.double()
    assert ((found - exact).abs() * 2.0**fraction).max() <= 2
    assert torch.equal(found[-4:], exact[-4:])


@pytest.mark.parametrize("fraction", range(12, 19))
def test_what_a_seed_misses_takes_the_bits_that_hardware_keeps(fraction):
    """For every number that a step is told apart from others."""
    reciprocal = Reciprocal(fraction + 2, 2, fraction)
    word, mantissa, index = reciprocal.word_fraction, fraction + 1, reciprocal.index_bits
    leading = torch.arange(1 << mantissa, 2 << mantissa)
    seeds = torch.tensor(reciprocal.words)[(leading >> (mantissa - index)) - (1 << index)]
    missed = (((2 << (mantissa + word)) - leading * seeds) >> word) - (1 << mantissa)
    most = 1 << (mantissa - index)
    assert -most <= int(missed.min()) and int(missed.max()) < most
