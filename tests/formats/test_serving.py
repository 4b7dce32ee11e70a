"""One format for consumers that ask for different ones."""

from itertools import permutations

import pytest
import torch

from mase_hw.formats import make_format, serving_formats
from mase_hw.formats.fixed import Fixed

_VALUES = torch.linspace(-3, 3, 601, dtype=torch.float64)

_PAIRS = {
    "fixed": [Fixed(8, 5), Fixed(8, 2), Fixed(4, 3)],
    "fixed, with and without a sign": [Fixed(8, 5), Fixed(6, 5, signed=False)],
    "scaled integers": [
        make_format({"name": "scaled_integer", "width": 8, "scale": scale})
        for scale in (0.001, 0.03, 0.02)
    ],
    "scaled integers around a point": [
        make_format(
            {
                "name": "scaled_integer",
                "width": 8,
                "scale": scale,
                "zero_point": point,
                "signed": False,
                "symmetric": False,
            }
        )
        for scale, point in ((0.003, 30), (0.03, 120))
    ],
    "powers of two": [
        make_format({"name": "log", "width": 4, "exponent_bias": bias}) for bias in (5, 9)
    ],
    "blocks": [make_format({"name": "mxint", "width": width, "block_size": 4}) for width in (4, 8)],
    "families": [Fixed(12, 9), make_format({"name": "mxint", "width": 4}), Fixed(12, 3)],
}


@pytest.mark.parametrize("name", _PAIRS)
def test_the_order_does_not_matter(name):
    found = {tuple(serving_formats(each, -3.0, 3.0, 2)) for each in permutations(_PAIRS[name])}
    assert len(found) == 1


@pytest.mark.parametrize("name", [name for name in _PAIRS if name != "families"])
def test_nobody_loses_more_than_a_step_of_the_own_format(name):
    (one,) = serving_formats(_PAIRS[name], -3.0, 3.0, 1)
    shared = one.round_values(_VALUES)
    for wanted in _PAIRS[name]:
        inside = wanted.in_range(_VALUES)
        alone, through = wanted.round_values(_VALUES), wanted.round_values(shared)
        error, least = ((found - _VALUES)[inside].square().sum() for found in (through, alone))
        # Rounding twice may choose the other neighbour.
        assert error <= 1.5 * least + 1e-12


def test_one_format_is_itself():
    assert serving_formats([Fixed(8, 3)] * 2, -100.0, 100.0, 2) == [Fixed(8, 3)]


def test_the_range_ends_where_values_do():
    wide, fine = Fixed(16, 2), Fixed(8, 7)
    assert serving_formats([wide, fine], -3.0, 3.0, 2) == [Fixed(10, 7)]
    assert serving_formats([wide, fine], -5000.0, 3.0, 2) == [Fixed(21, 7)]


def test_more_bits_than_there_are_cost_steps_not_range():
    (found,) = serving_formats([Fixed(16, 30), Fixed(16, 0)], -(2.0**14), 2.0**14, 2)
    assert found == Fixed(32, 16)
