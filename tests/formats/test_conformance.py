"""What every registered format promises; a format added to the registry is tested as it is."""

import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mase_hw.cells import Port
from mase_hw.errors import FormatError
from mase_hw.formats import family_of, format_class, formats, make_format
from mase_hw.formats._encoding import SCALARS

NAMES = sorted(formats())
# One block of every block format's default.
LENGTH = 16
REALS = st.floats(-1e4, 1e4, width=32) | st.floats(-4, 4, width=32) | st.floats(-1e-3, 1e-3)
ROWS = st.lists(REALS, min_size=LENGTH, max_size=LENGTH)
DTYPES = (torch.float32, torch.bfloat16, torch.float64)


def default(name):
    return formats()[name]()


def codes_of(name, shape=(64, 3, LENGTH), seed=0):
    return default(name).random_codes(shape, torch.Generator().manual_seed(seed))


def same(first, second):
    return torch.equal(first.nan_to_num(7.25), second.nan_to_num(7.25))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None)
@given(row=ROWS)
def test_rounding_is_what_codes_hold_and_is_idempotent(name, row):
    number, values = default(name), torch.tensor(row, dtype=torch.float32)
    rounded = number.round_values(values)
    assert torch.equal(number.round_values(rounded), rounded)
    assert torch.equal(number.decode(number.encode(values)), rounded.double())
    assert torch.equal(number.fake_quantize(values), rounded)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None)
@given(row=ROWS)
def test_rounding_is_monotonic_within_a_block(name, row):
    ordered = torch.tensor(sorted(row), dtype=torch.float64)
    rounded = default(name).round_values(ordered)
    assert bool((rounded.diff() >= 0).all())


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None)
@given(first=ROWS, second=ROWS)
def test_fitting_chooses_the_fields_that_it_says(name, first, second):
    cls = formats()[name]
    found = [cls.fit_values(torch.tensor(row)).to_dict() for row in (first, second)]
    found += [cls.fit(min(row), max(row)).to_dict() for row in (first, second)]
    for key, value in found[0].items():
        assert key in cls.fitted or all(item[key] == value for item in found)


@pytest.mark.parametrize("name", NAMES)
def test_codes_survive_the_wire(name):
    number, codes = default(name), codes_of(name, (24, LENGTH))
    for lanes, rows in ((LENGTH, 1), (4, 1), (2 * LENGTH, 2), (8, 2)):
        beats = codes.reshape(-1, LENGTH // (lanes // rows), lanes // rows)
        beats = beats.reshape(-1, rows, *beats.shape[1:]).movedim(1, 2).reshape(-1, lanes)
        payloads = number.to_fields(beats, rows)
        expected = number.stream_fields(lanes, rows)
        assert list(payloads) == [field.suffix for field in expected]
        for field in expected:
            bits = payloads[field.suffix]
            assert tuple(bits.shape) == (len(beats), field.lanes)
            assert int(bits.min()) >= 0
            assert int(bits.max()) < 1 << field.width_bits
        assert torch.equal(number.from_fields(payloads), beats)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", [{}, {"tensor_scale": 0.37}, {"scale": 0.37}])
def test_significands_and_the_real_scale_are_the_exact_values(name, scale):
    if not set(scale) <= set(formats()[name].field_names()):
        return
    number, codes = make_format({"name": name, **scale}), codes_of(name)
    try:
        integers, exponents = number.significands(codes)
    except FormatError:
        assert number.integer_fraction is None
        return
    exact = torch.ldexp(integers.double(), exponents)
    assert torch.equal(exact * float(number.real_scale), number.decode(codes))
    unit = number.unscaled()
    assert unit.real_scale == 1
    rounded = unit.decode(unit.from_scaled(integers, exponents))
    assert torch.equal(rounded, unit.round_values(exact))


@pytest.mark.parametrize("name", NAMES)
def test_random_codes_are_finite_and_reproducible(name):
    codes = codes_of(name)
    assert torch.equal(codes, codes_of(name))
    assert not torch.equal(codes, codes_of(name, seed=1))
    assert bool(default(name).decode(codes).isfinite().all())


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None)
@given(
    integers=st.lists(st.integers(-(2**40), 2**40), min_size=LENGTH, max_size=LENGTH),
    frac_width=st.integers(-8, 50),
)
def test_exact_integers_become_the_codes_of_their_values(name, integers, frac_width):
    number, codes = default(name), torch.tensor(integers)
    values = number.decode(number.from_fixed(codes, frac_width))
    expected = number.decode(number.encode((codes.double() * 2.0**-frac_width).float().double()))
    exact = codes.double() * 2.0**-frac_width
    if name != "none":
        expected = number.decode(number.encode(exact))
    assert torch.equal(values, expected)
    exponents = torch.full_like(codes, -frac_width)
    assert torch.equal(number.from_scaled(codes, exponents), number.from_fixed(codes, frac_width))


@pytest.mark.parametrize("name", NAMES)
def test_integers_of_each_exponent_are_rounded_alone(name):
    number, generator = default(name), torch.Generator().manual_seed(3)
    integers = torch.randint(-(2**30), 2**30, (50, LENGTH), generator=generator)
    exponents = torch.randint(-40, -20, (50, LENGTH), generator=generator)
    values = integers.double() * torch.exp2(exponents.double())
    if name == "none":
        values = values.float().double()
    expected = number.decode(number.encode(values))
    assert torch.equal(number.decode(number.from_scaled(integers, exponents)), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_dtype_shape_and_gradient_are_kept(name, dtype):
    number = default(name)
    for shape in ((), (5,), (3, 7), (2, 3, 33), (0,), (4, 0)):
        generator = torch.Generator().manual_seed(1)
        values = (torch.randn(shape, generator=generator) * 2).to(dtype).requires_grad_()
        result = number.fake_quantize(values)
        assert result.dtype == dtype
        assert result.shape == values.shape
        result.sum().backward()
        assert torch.equal(values.grad, number.in_range(values.detach()).to(dtype))
        assert number.encode(values).shape == values.shape


@pytest.mark.parametrize("name", NAMES)
def test_bfloat16_is_rounded_as_its_value(name):
    number, generator = default(name), torch.Generator().manual_seed(2)
    values = torch.randn(64, LENGTH, generator=generator).bfloat16()
    expected = number.round_values(values.float()).bfloat16()
    assert torch.equal(number.round_values(values), expected)


@pytest.mark.parametrize("name", NAMES)
def test_special_values_do_what_is_documented(name):
    number, inf = default(name), math.inf
    special = number.round_values(torch.tensor([inf, -inf, 0.0, -0.0]))
    assert bool((special[0] > 0) & (special[1] <= 0))
    assert bool(special.isfinite().all()) == (name != "none")
    nan = torch.tensor([1.0, math.nan, 0.25, -3.0])
    assert torch.isnan(number.round_values(nan)).tolist() == [False, True, False, False]
    finite = number.round_values(torch.tensor([1.0, 0.0, 0.25, -3.0]))
    assert torch.equal(number.round_values(nan)[[0, 2, 3]], finite[[0, 2, 3]])
    has_nan = name in ("none", "minifloat_ieee", "fp8_e4m3", "fp8_e5m2", "mxfp8")
    if has_nan:
        assert same(number.decode(number.encode(nan)).float(), number.round_values(nan))
    else:
        with pytest.raises(FormatError, match="NaN"):
            number.encode(nan)
    assert not bool(number.in_range(nan)[1]) or name == "none"


@pytest.mark.parametrize("name", NAMES)
def test_zero_stays_zero_where_there_is_one(name):
    number = default(name)
    rounded = number.round_values(torch.zeros(3, LENGTH))
    if name in ("binary", "binary_scaling", "binary_residual"):
        assert bool((rounded > 0).all())
    else:
        assert bool((rounded == 0).all())


@pytest.mark.parametrize("name", NAMES)
def test_a_description_makes_the_format_again(name):
    for number in (default(name), formats()[name].fit(-3.0, 2.0)):
        described = json.loads(json.dumps(number.to_dict()))
        assert make_format(described) == number
        assert hash(make_format(described)) == hash(number)
    assert format_class(name) is formats()[name]
    with pytest.raises(FormatError, match="has no parameter"):
        make_format({"name": name, "widht": 8})


@pytest.mark.parametrize("name", NAMES)
def test_its_encoding_has_its_signals_and_values(name):
    number = default(name)
    if family_of(type(number)) is not None:
        encoding = number.encoding
        assert number.stream_fields(2, 2) == Port.elements(encoding, 1, 1, rows=2).fields
        assert encoding.expression.startswith("mase_pkg::")
        if encoding.family in SCALARS and number.integer_fraction is not None:
            codes = number.random_codes((2000,), torch.Generator().manual_seed(3))
            found = number.to_integers(codes)
            low, high = encoding.limits
            assert low <= int(found.min()) and int(found.max()) <= high
    assert number.bits_per_element > 0
    assert set(number.inherited) <= {*number.field_names(), "signed", "width"}


@pytest.mark.parametrize("name", NAMES)
def test_the_module_gives_definition_and_source(name):
    module = __import__(formats()[name].__module__, fromlist=["x"])
    text = " ".join(module.__doc__.split())
    words = ("Value", "Source:") if name == "none" else ("Value set", "ounding", "Source:", "NaN")
    assert all(word in text or word.replace("ounding", "ound") in text for word in words)


@pytest.mark.parametrize("name", NAMES)
def test_common_units_hold_every_value(name):
    number = default(name)
    if number.integer_fraction is None:
        with pytest.raises(FormatError):
            number.to_integers(codes_of(name))
        return
    if name == "log":
        number = make_format({"name": name, "width": 5})
    codes = number.random_codes((500,), torch.Generator().manual_seed(0))
    units = number.to_integers(codes).double() * 2.0**-number.integer_fraction
    assert torch.equal(units, number.decode(codes))


def test_nearest_names_are_offered():
    with pytest.raises(FormatError, match="mxint"):
        format_class("mxnit")
