"""Element-wise operators on floats and blocks, against independent oracles, and their modules."""

import math
from dataclasses import replace
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
import torch

from mase_hw.formats import make_format
from mase_hw.formats.fixed import Fixed
from mase_hw.ops import Call, TensorSpec, operators, unary_operators
from tests.formats.block_rule import encoded, integers
from tests.ops.test_unary import MP
from tests.ops.test_unary import exact as exact_function

# Every preset, and the type of ml_dtypes with the same codes.
PRESETS = {
    "fp8_e4m3": ml_dtypes.float8_e4m3fn,
    "fp8_e5m2": ml_dtypes.float8_e5m2,
    "fp6_e2m3": ml_dtypes.float6_e2m3fn,
    "fp6_e3m2": ml_dtypes.float6_e3m2fn,
    "fp4_e2m1": ml_dtypes.float4_e2m1fn,
}
FUNCTIONS = {"add": np.add, "sub": np.subtract, "mul": np.multiply}


def binary_call(name, first, second, result, shape=(1, 1), parallelism=(1, 1)) -> Call:
    spec = TensorSpec(shape, parallelism=parallelism)
    operands = {"data_in_0": spec.with_format(first), "data_in_1": spec.with_format(second)}
    call = Call(name, operators()[name], operands, {"data_out_0": spec.with_format(result)})
    assert call.operator.problems(call) == []
    return call


def all_pairs(width: int) -> tuple[torch.Tensor, torch.Tensor]:
    codes = torch.arange(1 << width)
    return codes.repeat_interleave(1 << width), codes.repeat(1 << width)


def exact(name, left, right):
    """Return sums or products in float64, which holds those of all presets."""
    with np.errstate(invalid="ignore"):
        return FUNCTIONS[name](left.astype(np.float64), right.astype(np.float64))


@pytest.mark.parametrize("operation", FUNCTIONS)
@pytest.mark.parametrize("name", PRESETS)
def test_all_pairs_are_what_ml_dtypes_has(name, operation):
    """Every bit, infinities and signs of zero included; NaN has no sign."""
    dtype, number = PRESETS[name], make_format({"name": name, "saturate": False})
    first, second = all_pairs(number.layout.width)
    call = binary_call(operation, number, number, number)
    found = call.operator.reference(call)(first, second)
    left, right = (codes.numpy().astype(np.uint8).view(dtype) for codes in (first, second))
    expected = exact(operation, left, right).astype(dtype)
    codes = torch.from_numpy(expected.view(np.uint8).astype(np.int64))
    nan = torch.from_numpy(np.isnan(expected.astype(np.float64)))
    same = (found == codes) | (nan & torch.isnan(number.decode(found)))
    assert bool(same.all())
    assert bool(nan.any()) == (number.layout.specials != "none")


@pytest.mark.parametrize("operation", FUNCTIONS)
@pytest.mark.parametrize("name", PRESETS)
def test_saturating_results_differ_only_beyond_the_largest_number(name, operation):
    number = make_format({"name": name})
    first, second = all_pairs(number.layout.width)
    saturating, open_ended = (
        binary_call(operation, number, number, replace(number, saturate=saturate))
        for saturate in (True, False)
    )
    found = saturating.operator.reference(saturating)(first, second)
    expected = open_ended.operator.reference(open_ended)(first, second)
    left, right = number.decode(first).numpy(), number.decode(second).numpy()
    real = torch.from_numpy(exact(operation, left, right))
    beyond = (real.abs() > number.layout.maximum) & ~torch.isfinite(number.decode(expected))
    largest = number.layout.maximum_code | torch.where(real < 0, number.layout.sign, 0)
    assert torch.equal(found, torch.where(beyond, largest, expected))


def nearest_code(value, values, codes) -> int:
    distances = [abs(value - item) for item in values]
    best = min(distances)
    ties = [code for code, distance in zip(codes, distances, strict=True) if distance == best]
    return next(code for code in ties if len(ties) == 1 or code % 2 == 0)


def oracle_float(name, number, result, finite) -> list[int]:
    values = result.decode(torch.arange(result.layout.maximum_code + 1)).tolist()
    reals = [MP.mpf(value) for value in values]
    function, found = exact_function(name), []
    for x in number.decode(finite).tolist():
        real = function(x)
        place = max(0, np.searchsorted(values, abs(float(real))) - 2)
        near = slice(place, place + 4)
        codes = range(len(values))[near]
        # Beyond the largest value, 400 bits may not tell it from the one before.
        code = nearest_code(min(abs(real), reals[-1]), reals[near], codes)
        found.append(code | (result.layout.sign if real < 0 else 0))
    return found


@pytest.mark.parametrize(
    ("operand", "result"),
    [
        ({"name": "fp8_e4m3"}, {"name": "fp8_e4m3"}),
        pytest.param({"name": "fp8_e5m2"}, {"name": "fp8_e5m2"}, marks=pytest.mark.full),
        ({"name": "fp4_e2m1"}, {"name": "minifloat_denorm", "width": 10, "exponent_width": 5}),
        ({"name": "log", "width": 5}, {"name": "fp6_e3m2"}),
    ],
)
def test_functions_of_floats_are_correctly_rounded(operand, result):
    number, rounded = make_format(operand), make_format(result)
    codes = torch.arange(1 << number.layout.width)
    finite = codes[torch.isfinite(number.decode(codes))]
    for operator in unary_operators():
        call = operator.call(number, rounded)
        assert operator.problems(call) == []
        found = operator.reference(call)(finite)
        expected = torch.tensor(oracle_float(operator.name, number, rounded, finite))
        # 400 bits do not hold the textbook form's sign of results that small.
        found = torch.where(found == rounded.layout.sign, 0, found)
        expected = torch.where(expected == rounded.layout.sign, 0, expected)
        assert torch.equal(found, expected), operator.name


def test_zero_has_the_sign_of_what_was_rounded_to_it():
    number = make_format({"name": "fp8_e4m3"})
    codes = number.encode(torch.tensor([-100.0, 0.0, -0.0]))
    for name, expected in (("gelu", [0x80, 0, 0]), ("neg", [0x6C, 0, 0])):
        call = operators()[name].call(number, number)
        assert call.operator.reference(call)(codes).tolist() == expected


def test_functions_at_infinity_and_nan():
    number = make_format({"name": "fp8_e5m2", "saturate": False})
    layout = number.layout
    infinity, nan = layout.infinity_code, layout.nan_code
    codes = torch.tensor([infinity, infinity | layout.sign, nan, nan | layout.sign])
    limits = {
        "sigmoid": [0x3C, 0x00],
        "tanh": [0x3C, 0xBC],
        "relu": [infinity, 0x00],
        "exp": [infinity, 0x00],
        "neg": [infinity | layout.sign, infinity],
    }
    for name, expected in limits.items():
        call = operators()[name].call(number, number)
        assert call.operator.reference(call)(codes).tolist() == [*expected, nan, nan]
    for result, code in ((make_format({"name": "fp6_e2m3"}), 0x1F), (Fixed(8, 4), 127)):
        call = operators()["tanh"].call(number, result)
        assert call.operator.reference(call)(codes[2:]).tolist() == [code, code]
        call = binary_call("add", number, number, result)
        assert call.operator.reference(call)(codes[:1], codes[1:2]).tolist() == [code]


def value_of(number, code: int) -> Fraction | None:
    if isinstance(number, Fixed):
        return Fraction(code) / Fraction(2) ** number.frac_width
    value = float(number.decode(torch.tensor([code])))
    return Fraction(value) if math.isfinite(value) else None


MIXED = [
    ({"name": "minifloat_ieee", "width": 16, "exponent_width": 8}, None),
    ({"name": "minifloat_ieee", "width": 16, "exponent_width": 5}, {"name": "fp8_e4m3"}),
    ({"name": "fp8_e5m2"}, {"name": "fixed", "width": 20, "frac_width": 9}),
    ({"name": "log", "width": 6}, {"name": "fp6_e2m3"}),
    ({"name": "minifloat_denorm", "width": 12, "exponent_width": 6}, {"name": "log", "width": 8}),
]


@pytest.mark.parametrize("operation", FUNCTIONS)
@pytest.mark.parametrize(("first", "other"), MIXED)
def test_wide_and_mixed_floats_are_rounded_once(first, other, operation):
    """Against exact fractions, rounded by a search for the nearest value."""
    left = make_format(first)
    right = make_format(other or first)
    result = make_format({"name": "minifloat_denorm", "width": 9, "exponent_width": 5})
    generator = torch.Generator().manual_seed(3)
    codes = [number.random_codes((400,), generator) for number in (left, right)]
    call = binary_call(operation, left, right, result)
    found = call.operator.reference(call)(*codes).tolist()
    magnitudes = result.decode(torch.arange(result.layout.maximum_code + 1)).tolist()
    values = [Fraction(value) for value in magnitudes]
    for a, b, code in zip(codes[0].tolist(), codes[1].tolist(), found, strict=True):
        x, y = value_of(left, a), value_of(right, b)
        real = {"add": x + y, "sub": x - y, "mul": x * y}[operation]
        place = max(0, np.searchsorted(magnitudes, min(float(abs(real)), magnitudes[-1])) - 2)
        near = slice(place, place + 4)
        expected = nearest_code(abs(real), values[near], range(len(values))[near])
        assert code & (result.layout.sign - 1) == expected
        assert real == 0 or (code >= result.layout.sign) == (real < 0)


def encode_block(number, reals: list[Fraction]) -> list[Fraction]:
    """Return the values of one MX block, by the rule of the standard's section 6.3."""
    elements = integers(number.width)
    highest = number.scale.codes - 1 - number.scale.bias
    shared, bits = encoded(elements, -number.scale.bias, highest, reals)
    return [elements[item] * Fraction(2) ** shared for item in bits]


def exact_values(number, codes: torch.Tensor) -> list[Fraction]:
    return [Fraction(value) for value in number.decode(codes).flatten().tolist()]


@pytest.mark.parametrize("operation", FUNCTIONS)
@pytest.mark.parametrize(
    ("first", "second", "result"),
    [((8, 8), (8, 8), (8, 8)), ((4, 4), (6, 3), (8, 5)), ((8, 4), (4, 8), (4, 4))],
)
def test_blocks_are_combined_exactly(operation, first, second, result):
    """Scales near and far apart, blocks of different sizes, a short block at the end."""
    numbers = [
        make_format({"name": "mxint", "width": width, "block_size": size})
        for width, size in (first, second, result)
    ]
    generator = torch.Generator().manual_seed(1)
    shape = (1, 13)
    call = binary_call(operation, *numbers, shape=shape)
    for spread in (255, 20, 3):
        codes = []
        for number in numbers[:2]:
            drawn = number.random_codes((10, 13), generator)
            scale = (drawn >> number.width) % spread + (127 - spread // 2) * (spread < 255)
            codes.append((scale << number.width) | (drawn & ((1 << number.width) - 1)))
        found = numbers[2].decode(call.operator.reference(call)(*codes))
        for row in range(10):
            x, y = (
                exact_values(number, item[row])
                for number, item in zip(numbers, codes, strict=False)
            )
            reals = [
                {"add": a + b, "sub": a - b, "mul": a * b}[operation]
                for a, b in zip(x, y, strict=True)
            ]
            size = numbers[2].block_size
            expected = [
                value
                for start in range(0, 13, size)
                for value in encode_block(numbers[2], reals[start : start + size])
            ]
            assert [Fraction(value) for value in found[row].tolist()] == expected
