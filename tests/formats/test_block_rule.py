"""Every block of two small integers becomes what rational arithmetic says."""

import itertools
from fractions import Fraction

import pytest
import torch

from mase_hw.formats import make_format
from tests.formats.block_rule import encoded, float_scaled, floats, integers, nearest

BITS = 5
BLOCKS = list(itertools.product(range(-(2 ** (BITS - 1)), 2 ** (BITS - 1)), repeat=2))
FRACTIONS = (-4, 9)

# A format, its elements, the smallest and the largest exponent of a block.
POWERS = {
    "mxint 4": ({"name": "mxint", "width": 4, "exponent_width": 3}, integers(4), -3, 4),
    "mxint 3": ({"name": "mxint", "width": 3, "exponent_width": 4}, integers(3), -7, 8),
    "block minifloat 4, exponents of 2": ({"name": "block_minifloat", "width": 4,
        "exponent_width": 2, "exponent_bias_width": 4}, floats(2, 1), -7, 8),
    "block minifloat 5, exponents of 3": ({"name": "block_minifloat", "width": 5,
        "exponent_width": 3, "exponent_bias_width": 3}, floats(3, 1), -3, 4),
    "mxfp4": ({"name": "mxfp4"}, floats(2, 1), -127, 127),
}  # fmt: skip


def rationals(fraction: int) -> list[list[Fraction]]:
    return [[code / Fraction(2) ** fraction for code in block] for block in BLOCKS]


@pytest.mark.first(*(f"{name}-9" for name in POWERS))
@pytest.mark.parametrize("fraction", FRACTIONS)
@pytest.mark.parametrize("name", POWERS)
def test_a_block_has_the_exponent_and_elements_of_the_rule(name, fraction):
    entry, elements, low, high = POWERS[name]
    number = make_format({**entry, "block_size": 2})
    found = number.from_fixed(torch.tensor(BLOCKS), fraction)
    bits, exponents = number.split(found)
    values = [[Fraction(item) for item in row] for row in number.decode(found).tolist()]
    for place, block in enumerate(rationals(fraction)):
        shared, wanted = encoded(elements, low, high, block)
        assert exponents[place].tolist() == [shared, shared], block
        assert bits[place].tolist() == wanted, block
        assert values[place] == [elements[code] * Fraction(2) ** shared for code in wanted]


@pytest.mark.parametrize("fraction", FRACTIONS)
def test_a_block_with_a_float_for_a_scale(fraction):
    number = make_format({"name": "nvfp4", "block_size": 2})
    found = number.from_fixed(torch.tensor(BLOCKS), fraction)
    values = [[Fraction(item) for item in row] for row in number.decode(found).tolist()]
    elements = floats(2, 1)
    for place, block in enumerate(rationals(fraction)):
        scale, wanted = float_scaled(block)
        assert (found[place] & 15).tolist() == wanted, block
        assert values[place] == [elements[code] * scale for code in wanted], block


def test_the_rule_is_that_of_the_standard():
    """Ties go to even, what is too large saturates, and a block of zeros has the least scale."""
    assert nearest(integers(4), Fraction(5, 8)) == 2
    assert nearest(integers(4), Fraction(7, 8)) == 4
    assert nearest(integers(4), Fraction(-9)) == 9
    assert encoded(integers(4), -3, 4, [Fraction(0), Fraction(0)]) == (-3, [0, 0])
    assert encoded(integers(4), -3, 4, [Fraction(3), Fraction(-1, 2)]) == (1, [6, 15])
    assert max(floats(2, 1).values()) == 6
    assert float_scaled([Fraction(6), Fraction(0)])[0] == 1
