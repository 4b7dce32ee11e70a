"""Multipliers that give every reachable sum the code of the exact rational number."""

import random
from fractions import Fraction

import numpy as np
import pytest
import torch

from mase_hw.arithmetic.exact_requantize import (
    MOST_SUM_BITS,
    Part,
    Sums,
    dyadic_near,
    exact_requantization,
    exact_step_bits,
    rounded_products,
)
from mase_hw.formats.fixed import Fixed
from mase_hw.formats.scaled_integer import ScaledInteger


def single(low, high, draw):
    """Return a number of single precision over some decades."""
    return float(np.float32(np.exp(draw.uniform(np.log(low), np.log(high)))))


def nearby(item, result, draw, count=400):
    found = {item.low, item.high}
    for code in range(-130, 260):
        for half in (-1, 0, 1):
            place = (Fraction(2 * code + half, 2) - item.offset) / item.ratio
            found |= {int(place) + d for d in (-1, 0, 1)}
    found |= {draw.randint(item.low, item.high) for _ in range(count)}
    return [n for n in found if item.low <= n <= item.high]


RESULTS = {
    "int8": ScaledInteger(8, 0.043, -17, symmetric=False),
    "uint8": ScaledInteger(8, 0.013, 130, signed=False, symmetric=False),
    "int3": ScaledInteger(3, 0.7),
    "int8 fixed": Fixed(8, 5),
    "floor": Fixed(6, 2, rounding="floor"),
    "to zero": Fixed(6, 2, rounding="toward_zero"),
    "half up": Fixed(6, 2, False, "nearest_up"),
}


def rounded(value, result):
    if isinstance(result, ScaledInteger):
        low, high = result.code_range
        return min(max(round(value) + result.zero_points[0], low), high)
    steps = {
        "nearest_even": round(value),
        "nearest_up": (value + Fraction(1, 2)).__floor__(),
        "floor": value.__floor__(),
        "toward_zero": value.__trunc__(),
    }[result.rounding]
    return min(max(steps, result.minimum_code), result.maximum_code)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", RESULTS)
def test_every_sum_gets_its_exact_code(name, seed):
    result, draw = RESULTS[name], random.Random(seed)
    step = Fraction(result.scale if isinstance(result, ScaledInteger) else 2.0**-result.frac_width)
    sums = []
    for _ in range(6):
        unit = Fraction(single(1e-3, 0.1, draw)) * Fraction(single(1e-5, 1e-2, draw))
        bias = draw.randint(-60000, 60000) * Fraction(float(np.float32(unit)))
        reach = draw.choice([300, 20_000, 600_000])
        sums.append(Sums(unit / step, bias / step, -reach, reach - 7))
    found = exact_requantization(sums, result)
    assert found is not None
    unit = result.unscaled() if isinstance(result, ScaledInteger) else Fixed(
        result.width, 0, result.signed, result.rounding
    )  # fmt: skip
    for item, (factor, shift), bias in zip(sums, found.multipliers, found.biases, strict=True):
        tried = nearby(item, result, draw)
        wanted = [rounded(n * item.ratio + item.offset, result) for n in tried]
        given = (torch.tensor(tried) << found.fraction) + bias
        assert int(given.abs().max()).bit_length() < MOST_SUM_BITS
        codes = rounded_products(given, torch.tensor(factor), torch.tensor(shift), unit)
        assert codes.tolist() == wanted


def test_a_channel_whose_sums_hardly_count_keeps_its_bias():
    result = ScaledInteger(8, 0.02)
    item = Sums(Fraction(3, 1 << 60), Fraction(41, 7), -(10**6), 10**6)
    found = exact_requantization([item], result)
    assert found is not None
    ((factor, shift),), (bias,) = found.multipliers, found.biases
    given = (torch.tensor([-(10**6), 0, 10**6]) << found.fraction) + bias
    codes = rounded_products(given, torch.tensor(factor), torch.tensor(shift), result.unscaled())
    assert codes.tolist() == [6, 6, 6]


def test_sums_that_no_multiplier_serves_have_none():
    ratio = Fraction(1, 3) + Fraction(1, 10**30)
    assert exact_requantization([Sums(ratio, Fraction(0), 0, 1 << 40)], Fixed(8, 0)) is None


@pytest.mark.parametrize("seed", range(5))
def test_sums_of_two_streams_get_their_exact_codes(seed):
    draw = random.Random(seed)
    result = ScaledInteger(8, single(0.01, 0.2, draw), 9, symmetric=False)
    step = Fraction(result.scale)
    parts = [Part(Fraction(single(0.01, 0.2, draw)) / step, -140, 115) for _ in range(2)]
    bits = exact_step_bits(parts, 3, result, 12, 40)
    assert bits is not None
    near = [dyadic_near(part.ratio, bits) for part in parts]
    for _ in range(3000):
        a, b = draw.randint(-140, 115), draw.randint(-140, 115)
        exact = (a * parts[0].ratio + b * parts[1].ratio) / 3
        found = (a * near[0] + b * near[1]) / 3
        assert rounded(found, result) == rounded(exact, result)
