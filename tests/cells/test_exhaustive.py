"""Small arithmetic cells equal an independent definition for all inputs.

The definition is rational arithmetic on values: what is computed, exactly, and then the value of
the result's format that its rounding and overflow choose, out of a list of all of them. Nothing of
`mase_hw.arithmetic` is used.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import pytest
import torch

from mase_hw.cells import Cell
from mase_hw.cells.cast_fixed import CastFixed
from mase_hw.cells.cast_mixed import CastMixed
from mase_hw.cells.multiply_accumulate import MultiplyAccumulate
from mase_hw.cells.requantize import Requantize
from mase_hw.formats import Encoding, Format, make_format
from mase_hw.formats.fixed import OVERFLOW_MODES, ROUNDING_MODES, Fixed
from tests.formats.block_rule import Numbers, encoded, floats, integers
from tests.rtl_bench import Bench, Case, cell_case

HALF = Fraction(1, 2)


def bits_of(number: Format, codes: torch.Tensor) -> list[int]:
    return number.to_fields(codes.reshape(-1, 1), 1)[""].reshape(-1).tolist()


def values_of(number: Format) -> dict[int, Fraction]:
    """Return the value of every pattern of bits that is a number."""
    width = number.encoding.width
    patterns = torch.arange(1 << width)
    codes = number.from_fields({"": patterns.reshape(-1, 1)}).reshape(-1)
    values = number.decode(codes).double().tolist()
    again = bits_of(number, codes)
    return {
        pattern: Fraction(value)
        for pattern, value, back in zip(patterns.tolist(), values, again, strict=True)
        if math.isfinite(value) and back == pattern
    }


def rounded(value: Fraction, mode: str) -> int:
    """Return an integer, as IEEE 754 names the directions."""
    below = math.floor(value)
    rest = value - below
    if mode == "floor" or not rest:
        return below
    if mode == "toward_zero":
        return below + (value < 0)
    if rest == HALF:
        return below + 1 if mode == "nearest_up" else below + below % 2
    return below + (rest > HALF)


def fixed_pattern(number: Fixed, value: Fraction) -> int:
    """Return the bits of the code of a value in fixed point."""
    code = rounded(value * Fraction(2) ** number.frac_width, number.rounding)
    low = -(2 ** (number.width - 1)) if number.signed else 0
    high = low + 2**number.width - 1
    if number.overflow == "saturate":
        code = min(max(code, low), high)
    return code % 2**number.width


def float_pattern(number: Format, value: Fraction) -> int:
    """Return the bits of the nearest value, the one with an even mantissa of two."""
    values = values_of(number)
    distance = min(abs(value - item) for item in values.values())
    near = [pattern for pattern, item in values.items() if abs(value - item) == distance]
    even = [pattern for pattern in near if pattern % 2 == 0] or near
    # A zero has the sign of what was rounded, or none where that has none.
    signed = [item for item in even if (item >> (number.encoding.width - 1)) == (value < 0)]
    return (signed or even)[0]


def pattern(number: Format, value: Fraction) -> int:
    if isinstance(number, Fixed):
        return fixed_pattern(number, value)
    return float_pattern(number, value)


@dataclass(frozen=True)
class Claim:
    """A cell, its inputs by port, and the bits of each result."""

    cell: Cell
    inputs: dict[str, list[int]]
    wanted: list[int]


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


def blocks(source: Fixed, result: Format, elements: Numbers, low: int, high: int) -> Claim:
    """Every block of two codes, in one beat: the scale lies above the elements."""
    values = list(itertools.product(values_of(source).items(), repeat=2))
    width, bias = result.encoding.width, result.encoding.scale_bias
    wanted = []
    for block in values:
        shared, bits = encoded(elements, low, high, [value for _, value in block])
        wanted.append(((shared + bias) << width | bits[1]) << width | bits[0])
    inputs = [pair[1][0] << source.width | pair[0][0] for pair in values]
    cell = CastMixed(source.encoding, result.encoding, 2, 1, 2, beats=len(values))
    return Claim(cell, {"data_in_0": inputs}, wanted)


FLOATS = [
    {"name": "minifloat_ieee", "width": 5, "exponent_width": 2},
    {"name": "minifloat_denorm", "width": 5, "exponent_width": 3},
    {"name": "fp8_e4m3"},
]


# A format of blocks, its elements, the smallest and the largest exponent of a block.
BLOCKS = (
    ({"name": "mxint", "width": 4, "exponent_width": 4}, integers(4), -7, 8),
    (
        {"name": "block_minifloat", "width": 4, "exponent_width": 2, "exponent_bias_width": 4},
        floats(2, 1),
        -7,
        8,
    ),
)


def claims() -> Iterator[tuple[str, Callable[[], Claim]]]:
    """Yield claims by name."""
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
    for entry, *rule in BLOCKS:
        number = make_format({**entry, "block_size": 2})
        for source in (Fixed(5, 2), Fixed(6, 8)):
            yield f"cast {source} {number}", lambda a=source, b=number, c=rule: blocks(a, b, *c)
    for rounding, overflow in itertools.product(ROUNDING_MODES, OVERFLOW_MODES):
        result = Fixed(3, 1, True, rounding, overflow)
        yield (
            f"sums {rounding} {overflow}",
            lambda b=result: sums(Fixed(2, 1), Fixed(2, 1, False), Fixed(2, 3), b),
        )
        scaled = Fixed(4, 0, True, rounding, overflow)
        yield f"requantized {rounding} {overflow}", lambda b=scaled: requantized(6, 4, 5, b)


CLAIMS = dict(claims())


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict[str, tuple[Claim, list[int]]]:
    made = {f"c{number}": claim() for number, claim in enumerate(CLAIMS.values())}
    cases: list[Case] = [cell_case(name, claim.cell, claim.inputs) for name, claim in made.items()]
    outputs = Bench(cases, tmp_path_factory.mktemp("exhaustive")).run("none")
    names = dict(zip(CLAIMS, made, strict=True))
    return {name: (made[short], outputs[short].beats) for name, short in names.items()}


@pytest.mark.parametrize("name", CLAIMS)
def test_every_input_gives_what_rational_arithmetic_says(name, found):
    claim, beats = found[name]
    assert len(beats) == len(claim.wanted)
    wrong = [
        place
        for place, pair in enumerate(zip(beats, claim.wanted, strict=True))
        if pair[0] != pair[1]
    ]
    shown = [
        (
            {port: bits[place * len(bits) // len(beats)] for port, bits in claim.inputs.items()},
            beats[place],
            claim.wanted[place],
        )
        for place in wrong[:5]
    ]
    assert not wrong, shown


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


@pytest.mark.parametrize("entry", FLOATS, ids=lambda entry: entry["name"])
def test_exact_integers_become_the_nearest_float(entry):
    number = make_format(entry)
    codes = torch.arange(-300, 301)
    for fraction in (0, 3, 6):
        found = bits_of(number, number.from_fixed(codes, fraction))
        values = [Fraction(code, 2**fraction) for code in codes.tolist()]
        assert found == [float_pattern(number, value) for value in values]


def test_a_wrong_rounding_would_be_seen():
    number = Fixed(4, 0)
    assert [fixed_pattern(number, Fraction(n, 2)) for n in (1, 3, 5, -1, -3)] == [0, 2, 2, 0, 14]
    assert fixed_pattern(Fixed(4, 0, rounding="floor"), -HALF) == 15
    assert fixed_pattern(Fixed(4, 0, rounding="toward_zero"), -HALF) == 0
    assert fixed_pattern(Fixed(4, 0, rounding="nearest_up"), HALF) == 1
    assert fixed_pattern(Fixed(4, 0, overflow="wrap"), Fraction(9)) == 9
    assert fixed_pattern(number, Fraction(9)) == 7
