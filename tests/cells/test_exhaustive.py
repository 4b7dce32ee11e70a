"""Small casts, sums and requantisation equal rational arithmetic for all inputs."""

import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction

import pytest
import torch

from mase_hw.cells.cast_fixed import CastFixed
from mase_hw.cells.cast_mixed import CastMixed
from mase_hw.cells.centre import Centre
from mase_hw.cells.multiply_accumulate import MultiplyAccumulate
from mase_hw.cells.requantize import Requantize
from mase_hw.cells.running_sum import RunningSum
from mase_hw.formats import Encoding, Format, Kind, make_format
from mase_hw.formats.fixed import OVERFLOW_MODES, ROUNDING_MODES, Fixed
from tests.cells.rational import (
    HALF,
    Claim,
    bits_of,
    check,
    fixed_pattern,
    pattern,
    values_of,
)
from tests.formats.block_rule import Numbers, encoded, float_scaled, floats, integers, packed


def cast(source: Format, result: Format, negate: bool = False) -> Claim:
    values = values_of(source)
    both_fixed = isinstance(source, Fixed) and isinstance(result, Fixed)
    if both_fixed:
        cell = CastFixed(source.encoding, result.encoding, 1, negate, beats=len(values))
    else:
        cell = CastMixed(source.encoding, result.encoding, 1, 1, 1, beats=len(values))
    sign = -1 if negate else 1
    wanted = [pattern(result, sign * value) for value in values.values()]
    return Claim(cell, {"data_in_0": list(values)}, wanted)


def sums(data: Fixed, weight: Fixed, bias: Fixed, result: Fixed) -> Claim:
    """Two terms of one lane, with every combination of operands and bias."""
    sets = [values_of(item) for item in (data, data, weight, weight, bias)]
    inputs: dict[str, list[int]] = {"data_in_0": [], "weight": [], "bias": []}
    wanted = []
    for chosen in itertools.product(*(item.items() for item in sets)):
        (x0, u0), (x1, u1), (w0, v0), (w1, v1), (b, base) = chosen
        inputs["data_in_0"] += [x0, x1]
        inputs["weight"] += [w0, w1]
        inputs["bias"] += [b]
        wanted.append(fixed_pattern(result, u0 * v0 + u1 * v1 + base))
    count = len(wanted)
    cell = MultiplyAccumulate(
        data.encoding, weight.encoding, bias.encoding, result.encoding, 2, 1, 1, 1, count,
        accumulator_width=12,
    )  # fmt: skip
    return Claim(cell, inputs, wanted)


def requantized(width: int, multiplier_bits: int, shift: int, result: Fixed) -> Claim:
    """Every sum of some bits, times every multiplier of some bits."""
    whole = Fixed(width, 0)
    inputs: dict[str, list[int]] = {"data_in_0": [], "multiplier": []}
    wanted = []
    for (bits, value), factor in itertools.product(
        values_of(whole).items(), range(1 << (multiplier_bits - 1), 1 << multiplier_bits)
    ):
        inputs["data_in_0"].append(bits)
        inputs["multiplier"].append(shift << multiplier_bits | factor)
        wanted.append(fixed_pattern(result, value * factor / 2**shift))
    word = Encoding(multiplier_bits + 6, signed=False)
    cell = Requantize(
        whole.encoding, word, result.encoding, 1, 1, multiplier_bits, beats=len(wanted)
    )
    return Claim(cell, inputs, wanted)


def centred(signed: bool, zero: int) -> Claim:
    """Every code of four bits."""
    data = Encoding(4, Kind.OFFSET, signed=signed, zero_point=zero)
    values = [code - 16 * (signed and code > 7) for code in range(16)]
    cell = Centre(data, 1, beats=len(values))
    return Claim(cell, {"data_in_0": list(range(16))}, [(value - zero) % 32 for value in values])


def running(data: Fixed, row: int) -> Claim:
    """Every row of numbers, one a beat."""
    values = values_of(data)
    whole = Fixed(data.width + (row - 1).bit_length(), data.frac_width, data.signed)
    inputs, wanted = [], []
    for codes in itertools.product(values, repeat=row):
        inputs += codes
        sums = itertools.accumulate(values[code] for code in codes)
        wanted += [fixed_pattern(whole, value) for value in sums]
    return Claim(RunningSum(data.encoding, row, whole.width, row), {"data_in_0": inputs}, wanted)


Rule = Callable[[list[Fraction]], tuple[int, list[int]]]


def power(elements: Numbers, low: int, high: int) -> Rule:
    """Return the rule of blocks whose scale is a power of two, which is coded without a sign."""

    def rule(block: list[Fraction]) -> tuple[int, list[int]]:
        shared, bits = encoded(elements, low, high, block)
        return shared - low, bits

    return rule


def scaled(block: list[Fraction]) -> tuple[int, list[int]]:
    scale, bits = float_scaled(block)
    return next(code for code, value in floats(4, 3).items() if value == scale), bits


def blocks(source: Fixed, result: Format, rule: Rule) -> Claim:
    """Every block of two codes, in one beat: the scale lies above the elements."""
    values = list(itertools.product(values_of(source).items(), repeat=2))
    rounded = [rule([value for _, value in block]) for block in values]
    wanted = [packed(result.encoding.width, *block) for block in rounded]
    inputs = [pair[1][0] << source.width | pair[0][0] for pair in values]
    cell = CastMixed(source.encoding, result.encoding, 2, 1, 2, beats=len(values))
    return Claim(cell, {"data_in_0": inputs}, wanted)


FLOATS = [
    {"name": "minifloat_ieee", "width": 5, "exponent_width": 2},
    {"name": "minifloat_denorm", "width": 5, "exponent_width": 3},
    {"name": "fp8_e4m3"},
]


# A format of blocks, and its rule.
BLOCKS: tuple[tuple[dict[str, object], Rule], ...] = (
    ({"name": "mxint", "width": 4, "exponent_width": 4}, power(integers(4), -7, 8)),
    (
        {"name": "block_minifloat", "width": 4, "exponent_width": 2, "exponent_bias_width": 4},
        power(floats(2, 1), -7, 8),
    ),
    ({"name": "mxfp4"}, power(floats(2, 1), -127, 127)),
    ({"name": "nvfp4"}, scaled),
)


def claims() -> Iterator[tuple[str, Callable[[], Claim]]]:
    for rounding, overflow, signed in itertools.product(ROUNDING_MODES, OVERFLOW_MODES, (0, 1)):
        for wide, fraction in ((Fixed(6, 4), 1), (Fixed(6, 3, False), 2), (Fixed(5, -1), 1)):
            result = Fixed(4, fraction, bool(signed), rounding, overflow)
            for negate in (False, True)[: 1 + (wide.width == 5)]:
                name = f"cast {wide} {result} {rounding} {overflow} {negate}"
                yield name, lambda a=wide, b=result, c=negate: cast(a, b, c)
    floats = [make_format(entry) for entry in FLOATS]
    for number in floats:
        for rounding in ROUNDING_MODES:
            result = Fixed(5, 2, True, rounding)
            yield f"cast {number} {result} {rounding}", lambda a=number, b=result: cast(a, b)
        for source in (Fixed(7, 3), Fixed(6, 5, False), *floats):
            if source is not number:
                yield f"cast {source} {number}", lambda a=source, b=number: cast(a, b)
    for entry, rule in BLOCKS:
        number = make_format({**entry, "block_size": 2})
        for source in (Fixed(5, 2), Fixed(6, 8)):
            yield f"cast {source} {number}", lambda a=source, b=number, c=rule: blocks(a, b, c)
    for rounding, overflow in itertools.product(ROUNDING_MODES, OVERFLOW_MODES):
        result = Fixed(3, 1, True, rounding, overflow)
        yield (
            f"sums {rounding} {overflow}",
            lambda b=result: sums(Fixed(2, 1), Fixed(2, 1, False), Fixed(2, 3), b),
        )
        whole = Fixed(4, 0, True, rounding, overflow)
        yield f"requantized {rounding} {overflow}", lambda b=whole: requantized(6, 4, 5, b)
    for signed, zero in ((True, -8), (True, -3), (True, 7), (False, 0), (False, 5), (False, 15)):
        yield f"centred {signed} {zero}", lambda a=signed, b=zero: centred(a, b)
    for data, row in ((Fixed(4, 2), 3), (Fixed(3, 0, False), 4), (Fixed(3, 1), 1)):
        yield f"running sums {data} {row}", lambda a=data, b=row: running(a, b)


CLAIMS = dict(claims())


@pytest.mark.full
@pytest.mark.parametrize("name", CLAIMS)
def test_every_input_gives_what_rational_arithmetic_says(name, found):
    check(*found[name])


@pytest.mark.parametrize(
    ("rounding", "overflow"), list(itertools.product(ROUNDING_MODES, OVERFLOW_MODES))
)
@pytest.mark.parametrize("signed", [False, True])
def test_the_integer_reference_is_rational_arithmetic(rounding, overflow, signed):
    """All sums of 9 bits at every shift, left and right, into every mode."""
    codes = torch.arange(-256, 256)
    for shift in range(-2, 9):
        number = Fixed(4, 2, signed, rounding, overflow)
        found = bits_of(number, number.from_fixed(codes, 2 + shift))
        values = [Fraction(code) / Fraction(2) ** (2 + shift) for code in codes.tolist()]
        assert found == [fixed_pattern(number, value) for value in values]


def test_a_wrong_rounding_would_be_seen():
    number = Fixed(4, 0)
    assert [fixed_pattern(number, Fraction(n, 2)) for n in (1, 3, 5, -1, -3)] == [0, 2, 2, 0, 14]
    assert fixed_pattern(Fixed(4, 0, rounding="floor"), -HALF) == 15
    assert fixed_pattern(Fixed(4, 0, rounding="toward_zero"), -HALF) == 0
    assert fixed_pattern(Fixed(4, 0, rounding="nearest_up"), HALF) == 1
    assert fixed_pattern(Fixed(4, 0, overflow="wrap"), Fraction(9)) == 9
    assert fixed_pattern(number, Fraction(9)) == 7
