"""Layer and root mean square normalisation against float64: how far their integers may be off."""

import pytest
import torch

from mase_hw.approximation.reciprocal_root import ReciprocalRoot
from mase_hw.approximation.row_norm import RowNorm
from mase_hw.formats.fixed import Fixed

ROWS = 200


def rows(operand: Fixed, size: int) -> torch.Tensor:
    """Return rows of codes over the whole range, of a few steps, with one outlier, and constant."""
    generator = torch.Generator().manual_seed(size)
    whole = operand.random_codes((ROWS, size), generator)
    level = operand.random_codes((ROWS, 1), generator).expand(-1, size)
    outlier = torch.nn.functional.one_hot(
        torch.randint(0, size, (ROWS,), generator=generator), size
    )
    found = torch.cat([whole, whole >> 3, whole >> (operand.width - 2), level + outlier, level])
    return found.clamp(operand.minimum_code, operand.maximum_code)


@pytest.mark.parametrize("size", [1, 4, 7, 64, 768])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize(
    ("operand", "result", "bar"),
    [
        (Fixed(8, 4), Fixed(8, 5), 1.0),
        (Fixed(8, 7), Fixed(8, 4), 1.0),
        (Fixed(8, 0, signed=False), Fixed(8, 5), 1.0),
        (Fixed(16, 12), Fixed(16, 12), 2.0),
        (Fixed(16, 8), Fixed(16, 13), 2.0),
    ],
)
def test_results_are_near_those_of_float64(operand, result, bar, centred, affine, size):
    codes = rows(operand, size)
    weight_format = Fixed(result.width, result.width - 2) if affine else None
    bias_format = Fixed(result.width, result.width - 3) if affine else None
    arithmetic = RowNorm(operand, result, size, 1e-5, centred, weight_format, bias_format)
    assert arithmetic.problems == []
    x = operand.decode(codes)
    exact = x - x.mean(-1, keepdim=True) if centred else x
    exact = exact / ((exact * exact).mean(-1, keepdim=True) + 1e-5).sqrt()
    weight = bias = None
    if affine:
        generator = torch.Generator().manual_seed(1)
        weight = weight_format.random_codes((size,), generator)
        bias = bias_format.random_codes((size,), generator)
        exact = exact * weight_format.decode(weight) + bias_format.decode(bias)
    step = 2.0**-result.frac_width
    exact = exact.clamp(result.minimum_code * step, result.maximum_code * step)
    found = result.decode(arithmetic.evaluate(codes, weight, bias))
    assert ((found - exact).abs() / step).max() <= bar


def test_numbers_that_are_too_wide_are_refused():
    (problem,) = RowNorm(Fixed(24, 8), Fixed(8, 4), 768, 1e-5).problems
    assert "take 66 bits, at most 62" in problem
    (problem,) = RowNorm(Fixed(8, 4), Fixed(32, 24), 64, 1e-5).problems
    assert "use a result of fewer bits" in problem


@pytest.mark.parametrize("fraction", [7, 10, 11, 20, 24])
def test_a_reciprocal_root_is_near(fraction):
    root = ReciprocalRoot(fraction)
    generator = torch.Generator().manual_seed(1)
    numbers = [torch.arange(1, 5000)]
    numbers += [torch.randint(1, 1 << bits, (5000,), generator=generator) for bits in (30, 45, 60)]
    mantissas, places = root.evaluate(torch.cat(numbers))
    exact = torch.cat(numbers).double().rsqrt() * 2.0 ** places.double()
    assert ((mantissas.double() * 2.0**-fraction / exact - 1).abs() * 2.0**fraction).max() <= 2.5
