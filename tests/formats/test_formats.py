"""What is peculiar to one format: compile, pitfalls, bad parameters, fitting, block rules."""

import math
from fractions import Fraction

import pytest
import torch

from mase_hw.errors import FormatError
from mase_hw.formats import formats, make_format
from mase_hw.formats.fixed import ROUNDING_MODES, Fixed
from tests.cells.rational import fixed_code

BLOCKS = [name for name in sorted(formats()) if "block_size" in formats()[name].field_names()]


def make(name, **fields):
    return make_format({"name": name, **fields})


@pytest.mark.full
def test_training_compiles_without_a_graph_break():
    # One graph for all formats: compiling each alone takes a minute.
    numbers = [cls() for cls in formats().values()]

    def step(values):
        return sum((number.fake_quantize(values) ** 2).sum() for number in numbers)

    values = torch.randn(8, 40, generator=torch.Generator().manual_seed(0))
    eager, compiled = (values.clone().requires_grad_() for _ in range(2))
    step(eager).backward()
    torch._dynamo.reset()
    torch.compile(step, fullgraph=True, backend="aot_eager")(compiled).backward()
    assert torch.equal(eager.grad, compiled.grad)


def compare_generated_code(number, shape, dtype):
    """Compare result and gradient of the code that torch generates with eager's, bit for bit."""
    generator = torch.Generator().manual_seed(0)
    values = (torch.randn(shape, generator=generator) * 3).to(dtype)
    weights = torch.randn(shape, generator=generator).to(dtype)
    eager, compiled = (values.clone().requires_grad_() for _ in range(2))
    torch._dynamo.reset()
    function = torch.compile(lambda item: number.fake_quantize(item) * 2, fullgraph=True)
    expected, found = number.fake_quantize(eager) * 2, function(compiled)
    assert torch.equal(found, expected)
    found.backward(weights)
    expected.backward(weights)
    assert torch.equal(compiled.grad, eager.grad)


@pytest.mark.full
def test_generated_code_keeps_a_short_last_block():
    compare_generated_code(make("mxint"), (3, 45), torch.float32)


@pytest.mark.full
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("shape", [(64, 96), (3, 45), (5, 784), (7,), (33, 17, 3)])
@pytest.mark.parametrize("name", sorted(formats()))
def test_generated_code_is_exact(name, shape, dtype):
    compare_generated_code(formats()[name](), shape, dtype)


@pytest.mark.full
@pytest.mark.parametrize("name", BLOCKS)
def test_generated_code_is_exact_along_another_axis(name):
    compare_generated_code(make(name, axis=1), (3, 45, 17), torch.float32)


def test_stochastic_bits_have_the_right_mean():
    torch.manual_seed(0)
    for bipolar, value in ((True, -0.4), (False, 0.3)):
        rounded = make("binary", stochastic=True, bipolar=bipolar).round_values(
            torch.full((20_000,), value)
        )
        assert set(rounded.tolist()) == ({-1.0, 1.0} if bipolar else {0.0, 1.0})
        assert abs(float(rounded.mean()) - value) < 0.03


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize(("size", "axis"), [(4, -1), (3, 0), (8, 1), (1, 2)])
def test_a_block_is_rounded_alone_along_its_axis(name, size, axis):
    number = make(name, block_size=size, axis=axis)
    values = torch.randn(5, 7, 11, generator=torch.Generator().manual_seed(4))
    values *= torch.exp2(torch.arange(5.0) * 3)[:, None, None]
    whole, alone = number.round_values(values), make(name, block_size=size)
    for part, expected in zip(values.split(size, axis), whole.split(size, axis), strict=True):
        rows = alone.round_values(part.movedim(axis, -1).contiguous()).movedim(-1, axis)
        assert torch.equal(rows, expected)
    assert torch.equal(number.decode(number.encode(values)).float(), whole)


@pytest.mark.parametrize("name", BLOCKS)
def test_the_smallest_and_largest_scales_bound_a_block(name):
    number = formats()[name]()
    tiny = torch.full((32,), 2.0**-140)
    assert torch.equal(number.decode(number.encode(tiny)).float(), number.round_values(tiny))
    huge = torch.full((32,), 3.0e38)
    assert bool(number.round_values(huge).isfinite().all())
    assert torch.equal(number.decode(number.encode(huge)).float(), number.round_values(huge))


@pytest.mark.parametrize("threshold", [0.1, 0.3, 1 / 3, 0.7, 2.0**-140 * 1.1, 0.5 + 2**-26, 3e38])
def test_ternary_rounds_as_it_encodes_at_the_threshold(threshold):
    number = make("ternary", scale=2 * threshold, threshold=threshold)
    near = torch.tensor(threshold, dtype=torch.float64).float()
    steps = [torch.full((1,), float(near)), torch.tensor([float("inf")])]
    for end in (float("inf"), 0.0):
        value = near
        for _ in range(3):
            value = torch.nextafter(value, torch.tensor(end))
            steps.append(value.reshape(1))
    values = torch.cat([*steps, *(-step for step in steps)])
    signs = torch.sign(number.round_values(values))
    assert torch.equal(signs.long(), number.encode(values.double()))
    assert torch.equal(number.encode(values), number.encode(values.double()))


@pytest.mark.parametrize("bias", [127, 128, 140, 200, 250])
def test_block_fp_rounds_subnormal_numbers_as_it_encodes_them(bias):
    number = make("block_fp", exponent_bias=bias, block_size=4)
    exponents = torch.arange(-149.0, -100.0).repeat_interleave(4)
    values = torch.randn(
        len(exponents), generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    values = (values * torch.exp2(exponents.double())).float()
    assert torch.equal(number.decode(number.encode(values)).float(), number.round_values(values))


@pytest.mark.parametrize("width", [2, 4, 5, 8])
def test_block_log_is_one_function_at_the_top_of_the_range(width):
    """As rounded, as encoded, and as cast from exact integers."""
    number = make("block_log", width=width, block_size=1)
    places = torch.arange(100, 128)
    integers = torch.tensor([4, 5, 6, 7])[:, None].expand(4, len(places))
    values = (integers.double() * torch.exp2(places - 2.0)).float()
    codes = number.from_scaled(integers.contiguous(), (places - 2).expand(4, -1).contiguous())
    assert torch.equal(codes, number.encode(values))
    assert torch.equal(number.decode(codes).float(), number.round_values(values))
    assert bool(number.decode(codes).float().isfinite().all())


@pytest.mark.parametrize("name", ["mxint", "mxfp4", "mxfp6", "mxfp8"])
def test_the_last_code_of_a_standard_scale_is_not_a_number(name):
    number = formats()[name]()
    codes = (255 << number.element.width) | torch.arange(4)
    assert bool(number.decode(codes).isnan().all())
    assert bool(number.decode(codes - (1 << number.element.width)).isfinite().all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_gradients_pass_or_do_not_at_the_edge_of_saturation(dtype):
    number = make("minifloat_denorm", width=8, exponent_width=4, exponent_bias=139)
    clip = torch.tensor(number.layout.clip, dtype=dtype)
    beyond = torch.nextafter(clip, torch.tensor(1.0, dtype=dtype))
    values = torch.stack([clip, beyond, beyond * 2, -beyond, torch.full_like(clip, torch.nan)])
    values.requires_grad_()
    number.fake_quantize(values).sum().backward()
    assert values.grad.tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]


def test_scaled_integers_fit_tensors_and_channels():
    cls = formats()["scaled_integer"]
    values = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    values *= torch.arange(1.0, 7)[:, None]
    for symmetric in (True, False):
        for signed in (True, False):
            if symmetric and not signed:
                continue
            fields = {"width": 8, "symmetric": symmetric, "signed": signed}
            for axis in (None, 0, -1):
                number = cls.fit_values(values, **fields, channel_axis=axis)
                error = (number.round_values(values) - values).abs()
                step = torch.as_tensor(number.scale, dtype=torch.float64)
                step = step if axis is None else step.reshape((-1, 1) if axis == 0 else (1, -1))
                assert bool((error <= step * 0.5000001 + 1e-6).all())
                assert bool((number.encode(torch.zeros(6, 4)) == torch.as_tensor(
                    number.zero_point).reshape(-1, *([1] if axis == 0 else []))).all())  # fmt: skip
    whole = cls.fit_values(values, width=4)
    channels = cls.fit_values(values, width=4, channel_axis=0)
    errors = [(n.round_values(values) - values).norm() for n in (whole, channels)]
    assert errors[1] < errors[0]
    with pytest.raises(FormatError, match="6 channels along dimension 0"):
        channels.encode(torch.zeros(3, 4))


def test_fitted_scales_follow_the_data():
    values = torch.tensor([0.5, -1.5, 1.0, 0.1])
    assert formats()["binary_scaling"].fit_values(values).scale == pytest.approx(0.775)
    assert formats()["binary_residual"].fit_values(values, levels=3).scale == pytest.approx(0.775)
    ternary = formats()["ternary"].fit_values(values)
    assert ternary.scale == pytest.approx(1.25)
    assert ternary.threshold == pytest.approx(0.7 * 0.775)
    assert formats()["log"].fit(-3.1, 2.0, width=4).round_values(torch.tensor(3.1)) == 4.0
    nvfp4 = formats()["nvfp4"].fit(-3.0, 2.0)
    assert float(nvfp4.round_values(torch.tensor([-3.0, 0, 0]))[0]) == pytest.approx(-3.0)


def test_residuals_have_two_signs_unless_others_are_asked():
    assert str(make("binary_residual")) == "binary_residual<2,1.0>"
    assert make("binary_residual").bits_per_element == 2
    assert make("binary_residual", levels=3).bits_per_element == 3


def test_a_ternary_scale_is_given_or_the_larger_end_of_the_range():
    cls = formats()["ternary"]
    assert cls.fit(-3.0, 2.0).scale == 3.0
    assert cls.fit(-3.0, 2.0, scale=0.5).scale == 0.5
    assert cls.fit(0.0, 0.0) == cls()


@pytest.mark.parametrize("name", ["ternary", "binary_scaling", "binary_residual"])
def test_scales_taken_from_the_data_have_no_codes(name):
    number = make(name, scale=None)
    values = torch.randn(100, generator=torch.Generator().manual_seed(0)) * 0.05
    fitted = formats()[name].fit_values(values)
    assert torch.allclose(number.round_values(values), fitted.round_values(values), rtol=1e-5)
    with pytest.raises(FormatError, match="fixed scale"):
        number.encode(values)


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({"name": "minifloat_denorm", "exponent_bias": 1000}, "exponent_bias is 1000"),
        ({"name": "mxint", "block_size": 0}, "block_size is 0"),
        ({"name": "mxfp6", "element_format": "e4m1"}, "allowed: e2m3, e3m2"),
        ({"name": "block_fp", "exponent_bias": 500}, "exponent_bias is 500"),
        ({"name": "scaled_integer", "scale": 0.0}, "scale is 0.0"),
        ({"name": "scaled_integer", "scale": float("nan")}, "a finite number above 0"),
        ({"name": "scaled_integer", "zero_point": 3}, "symmetric allows only 0"),
        ({"name": "scaled_integer", "scale": [0.1, 0.2]}, "needs channel_axis"),
        ({"name": "ternary", "threshold": 2.0}, "below the scale"),
        ({"name": "binary", "bipolar": "yes"}, "bipolar is 'yes'"),
        ({"name": "nvfp4", "tensor_scale": -1.0}, "tensor_scale is -1.0"),
        ({"name": "fp8_e4m3", "width": 8}, "has no parameter 'width'"),
    ],
    ids=str,
)
def test_bad_parameters_are_refused_with_what_is_allowed(description, message):
    with pytest.raises(FormatError, match=message):
        make_format(description)


def test_infinities_saturate_where_codes_wrap():
    number = Fixed(8, 4, overflow="wrap")
    values = torch.tensor([math.inf, -math.inf, 8.0, 1.0])
    assert number.encode(values).tolist() == [127, -128, -128, 16]
    assert number.round_values(values).tolist() == [7.9375, -8.0, -8.0, 1.0]
    with pytest.raises(FormatError, match="62 bits"):
        number.encode(torch.tensor([1e30]))


@pytest.mark.parametrize("rounding", ROUNDING_MODES)
def test_integers_are_rounded_as_each_mode_says(rounding):
    number, codes = Fixed(6, 1, rounding=rounding), torch.arange(-300, 301)
    expected = [fixed_code(number, Fraction(code, 16)) for code in codes.tolist()]
    assert number.from_fixed(codes, 4).tolist() == expected
