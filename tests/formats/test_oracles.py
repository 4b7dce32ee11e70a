"""Formats against other implementations: ml_dtypes, gfloat, torch, torchao, brute force."""

import math

import gfloat
import gfloat.formats
import ml_dtypes
import numpy as np
import pytest
import torch

from mase_hw.formats import make_format

ML_DTYPES = {
    "fp8_e4m3": ml_dtypes.float8_e4m3fn,
    "fp8_e5m2": ml_dtypes.float8_e5m2,
    "fp6_e2m3": ml_dtypes.float6_e2m3fn,
    "fp6_e3m2": ml_dtypes.float6_e3m2fn,
    "fp4_e2m1": ml_dtypes.float4_e2m1fn,
    "minifloat_ieee<8,4>": ml_dtypes.float8_e4m3,
    "minifloat_ieee<8,3>": ml_dtypes.float8_e3m4,
}
MX = {
    "mxfp8_e4m3": gfloat.formats.format_info_mxfp8_e4m3,
    "mxfp8_e5m2": gfloat.formats.format_info_mxfp8_e5m2,
    "mxfp6_e2m3": gfloat.formats.format_info_mxfp6_e2m3,
    "mxfp6_e3m2": gfloat.formats.format_info_mxfp6_e3m2,
    "mxfp4_e2m1": gfloat.formats.format_info_mxfp4_e2m1,
    "mxint": gfloat.formats.format_info_mxint8,
}


def named(name, **fields):
    family, _, rest = name.partition("<")
    if rest:
        width, exponent_width = rest.rstrip(">").split(",")
        fields |= {"width": int(width), "exponent_width": int(exponent_width)}
    if family.startswith("mxfp"):
        family, _, element = family.partition("_")
        fields |= {"element_format": element}
    if family == "mxint":
        fields |= {"symmetric": False}
    return make_format({"name": family, **fields})


def adversarial(number, count=20_000):
    """Every value, every border between two values and its neighbours, and random reals."""
    codes = torch.arange(1 << int(number.bits_per_element))
    values = number.decode(codes)
    values = values[values.isfinite()].unique().numpy()
    borders = (values[1:] + values[:-1]) / 2
    exact = np.concatenate([values, borders, values * 1.0001, values * 2, values / 2])
    below, above = np.nextafter(exact, -np.inf), np.nextafter(exact, np.inf)
    singles = [exact, np.nextafter(exact.astype(np.float32), np.float32(np.inf)).astype(float)]
    rng = np.random.default_rng(0)
    largest = values[-1]
    spread = rng.standard_normal(count) * largest * 0.7
    small = rng.standard_normal(count) * 2.0 ** rng.uniform(-30, math.log2(largest) + 1, count)
    special = [0.0, -0.0, math.inf, -math.inf, largest * 1.5, -largest * 1e6, 1e30, -1e-30]
    return np.concatenate([*singles, below, above, spread, small, special])


def identical(first, second):
    """Equal, signs of zero included; NaN equals NaN."""
    first, second = np.asarray(first, float), np.asarray(second, float)
    equal = (first == second) & (np.signbit(first) == np.signbit(second))
    return bool((equal | (np.isnan(first) & np.isnan(second))).all())


@pytest.mark.parametrize("name", ML_DTYPES)
def test_every_code_decodes_as_in_ml_dtypes(name):
    number, dtype = named(name), ML_DTYPES[name]
    codes = torch.arange(1 << int(number.bits_per_element))
    expected = codes.numpy().astype(np.uint8).view(dtype).astype(np.float64)
    assert identical(number.decode(codes), expected)


@pytest.mark.parametrize("saturate", [True, False])
@pytest.mark.parametrize("name", ML_DTYPES)
def test_reals_round_as_in_ml_dtypes(name, saturate):
    plain = name.startswith(("fp6", "fp4"))
    number = named(name, saturate=saturate)
    reals = adversarial(number).astype(np.float32)
    if number.layout.nan_code is not None:
        reals = np.append(reals, np.float32(math.nan))
    expected = reals.astype(ML_DTYPES[name]).astype(np.float64)
    if saturate and not plain:
        largest = number.layout.maximum
        over = ~np.isfinite(expected) & ~np.isnan(reals)
        expected = np.where(over, np.copysign(largest, reals), expected)
    found = number.round_values(torch.from_numpy(reals))
    assert identical(np.abs(found[reals != 0]), np.abs(expected[reals != 0]))
    assert identical(found, expected)
    assert identical(number.decode(number.encode(torch.from_numpy(reals))), expected)


@pytest.mark.parametrize("name", MX)
def test_blocks_are_scaled_and_rounded_as_in_gfloat(name):
    number, info = named(name), MX[name]
    generator = np.random.default_rng(5)
    blocks = generator.standard_normal((150, 32)) * 2.0 ** generator.uniform(-60, 60, (150, 1))
    blocks[::5] *= 2.0 ** generator.integers(-12, 3, (30, 32))
    blocks[1::7, 1:] = 0.0
    edges = np.array([number.element.maximum, 1.0, 0.5, number.element.clip, 2.0, 0.0, -0.0])
    blocks[2::9, : len(edges)] = edges * 2.0 ** generator.integers(-5, 5, (len(blocks[2::9]), 1))
    expected = [gfloat.quantize_block(info, block, gfloat.compute_scale_amax) for block in blocks]
    found = number.round_values(torch.from_numpy(blocks))
    assert torch.equal(found, torch.tensor(np.array(expected)))
    single = torch.from_numpy(blocks).float()
    assert torch.equal(number.round_values(single).double(), number.round_values(single.double()))


@pytest.mark.parametrize("name", MX)
def test_codes_of_blocks_decode_as_in_gfloat(name):
    number, info = named(name), MX[name]
    elements = torch.arange(1 << number.element.width)
    for scale in (0, 1, 127, 200, 254):
        codes = (scale << number.element.width) | elements
        decoded = [next(iter(gfloat.decode_block(info, iter([scale, int(e)])))) for e in elements]
        found = number.decode(codes)
        assert identical(found[found.isfinite()], np.array(decoded)[found.isfinite()])


BRUTE_FORCE = [
    {"name": "minifloat_denorm", "width": 8, "exponent_width": 4},
    {"name": "minifloat_denorm", "width": 12, "exponent_width": 5},
    {"name": "minifloat_denorm", "width": 3, "exponent_width": 1},
    {"name": "minifloat_denorm", "width": 7, "exponent_width": 2, "exponent_bias": 9},
    {"name": "minifloat_denorm", "width": 6, "exponent_width": 3, "exponent_bias": -4},
    {"name": "minifloat_ieee", "width": 10, "exponent_width": 4},
    {"name": "minifloat_ieee", "width": 5, "exponent_width": 2},
    {"name": "log", "width": 4},
    {"name": "log", "width": 6, "exponent_bias": 20},
    {"name": "log", "width": 2},
    {"name": "binary"},
    {"name": "binary", "bipolar": False},
    {"name": "binary_scaling", "scale": 0.3},
    {"name": "binary_residual", "levels": 1},
    {"name": "binary_residual", "levels": 3, "scale": 0.75},
    {"name": "ternary"},
    {"name": "ternary", "scale": 0.4},
    {"name": "fixed", "width": 8, "frac_width": 4},
    {"name": "fixed", "width": 12, "frac_width": 14, "signed": False},
    {"name": "scaled_integer", "width": 8, "scale": 0.0371},
    {"name": "scaled_integer", "width": 4, "scale": 0.5, "symmetric": False, "zero_point": 3},
    {"name": "scaled_integer", "width": 6, "scale": 0.25, "signed": False, "symmetric": False,
     "zero_point": 9},
]  # fmt: skip


@pytest.mark.parametrize("description", BRUTE_FORCE, ids=str)
def test_every_real_goes_to_a_nearest_value(description):
    number = make_format(description)
    field = number.stream_fields(1)[0]
    bits = torch.arange(1 << field.width_bits)[:, None]
    codes = number.from_fields({"": bits})[:, 0]
    if hasattr(number, "code_range"):
        low, high = number.code_range
        codes = codes[(codes >= low) & (codes <= high)]
    decoded = number.decode(codes)
    assert torch.equal(
        number.round_values(decoded[decoded.isfinite()]), decoded[decoded.isfinite()]
    )
    values = decoded[decoded.isfinite()].unique().numpy()
    generator = np.random.default_rng(1)
    borders = (values[1:] + values[:-1]) / 2
    around = np.concatenate([borders * (1 + 1e-9), borders * (1 - 1e-9), [0.0]])
    random = generator.uniform(values[0] * 1.3, values[-1] * 1.3 + 0.1, 400)
    tiny = generator.standard_normal(200) * values[-1] * 2.0 ** generator.uniform(-20, 0, 200)
    reals = np.concatenate([around, random, tiny])
    found = number.round_values(torch.from_numpy(reals)).numpy()
    # The nearest value is the one on the right side of both borders around it.
    places = np.searchsorted(values, found)
    assert np.array_equal(values[places], found)
    slack = 1e-12 * np.maximum(np.abs(reals), 1e-30)
    lower = np.append(-np.inf, borders)[places]
    upper = np.append(borders, np.inf)[places]
    assert bool(((reals >= lower - slack) & (reals <= upper + slack)).all())


@pytest.mark.parametrize(
    "description",
    [item for item in BRUTE_FORCE if item["name"] in ("minifloat_denorm", "minifloat_ieee")],
    ids=str,
)
def test_ties_go_to_the_even_code(description):
    number = make_format(description)
    values = number.decode(torch.arange(number.layout.maximum_code + 1))
    for sign in (1.0, -1.0):
        borders = sign * (values[1:] + values[:-1]) / 2
        codes = number.encode(borders)
        assert bool((codes & 1 == 0).all())
        assert bool(((number.decode(codes) - borders).abs() * 2 == values.diff()).all())


def test_ties_of_powers_of_two_go_up():
    number = make_format({"name": "log", "width": 5})
    powers = torch.exp2(torch.arange(-6, 7).double())
    assert torch.equal(number.round_values(1.5 * powers), 2 * powers)
    smallest = number.decode(torch.tensor([1]))
    assert float(number.round_values(smallest / 2)) == 0.0
    assert float(number.round_values(smallest * 0.500001)) == float(smallest)


@pytest.mark.parametrize(
    "name",
    [
        "minifloat_denorm", "fp8_e4m3", "fp4_e2m1", "log", "mxint", "mxfp8", "block_fp",
        "block_minifloat", "block_log",
    ],
)  # fmt: skip
def test_wide_integers_are_rounded_once(name):
    # float64 would round these first: 2**60 + 1 is above the tie that it would become.
    blocks = {"block_size": 1} if name.startswith(("block", "mx")) else {}
    number = make_format({"name": name, **blocks})
    element = number.element if blocks else number.layout
    kept = getattr(element, "mantissa_width", element.width - 2)
    tops = torch.arange(1 << kept, 2 << kept)
    ties = (tops << (60 - kept)) + (1 << (59 - kept))
    even = tops + (tops & 1) if kept else tops + 1
    for codes, expected in ((ties, even), (ties + 1, tops + 1), (ties - 1, tops)):
        values = expected.double() * 2.0**-kept
        if blocks and not number.scale.nearest:
            values = values.clamp(max=element.maximum * 2.0**-element.exponent)
        assert torch.equal(number.decode(number.from_fixed(codes, 60)), values)
        assert torch.equal(number.decode(number.from_fixed(-codes, 60)), -values)


def spread_blocks():
    generator = torch.Generator().manual_seed(5)
    values = torch.randn(400, 32, generator=generator)
    values *= 2.0 ** torch.randint(-40, 40, (400, 1), generator=generator)
    values[::5] *= 2.0 ** torch.randint(-12, 3, (80, 32), generator=generator)
    values[1::7, 1:] = 0.0
    return values


@pytest.mark.parametrize("name", [name for name in MX if name != "mxint"])
def test_blocks_are_scaled_and_rounded_as_in_torchao(name):
    blocks = pytest.importorskip("torchao.prototype.mx_formats.mx_tensor")
    element = {
        "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "e2m1": torch.float4_e2m1fn_x2,
    }.get(name.partition("_")[2], name.replace("mx", ""))  # fmt: skip
    values = spread_blocks()
    scales, codes = blocks.to_mx(values, element, 32)
    expected = blocks.to_dtype(codes, scales, element, 32, torch.float32).reshape(values.shape)
    assert identical(named(name, block_size=32).round_values(values), expected)


@pytest.mark.parametrize("tensor_scale", [1.0, 0.37])
def test_codes_of_nvfp4_are_those_of_torchao(tensor_scale):
    blocks = pytest.importorskip("torchao.prototype.mx_formats.nvfp4_tensor")
    values = spread_blocks()
    scales, packed = blocks.nvfp4_quantize(values, 16, torch.tensor(tensor_scale))
    pairs = packed.view(torch.uint8).long()
    elements = torch.stack([pairs & 15, pairs >> 4], -1).reshape(values.shape)
    above = scales.view(torch.uint8).long().repeat_interleave(16, -1) << 4
    number = make_format({"name": "nvfp4", "tensor_scale": tensor_scale})
    assert torch.equal(number.encode(values), above | elements)
