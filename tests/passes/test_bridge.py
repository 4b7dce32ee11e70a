"""Operators in formats that they do not compute in, against rational arithmetic."""

from fractions import Fraction
from functools import cache
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from mase_hw.arithmetic.carriers import exact_bits, exact_fixed, exact_fixed_of, exact_float
from mase_hw.arithmetic.quotient import Quotient, exact_quotient
from mase_hw.emit.flow import quantize, to_hardware
from mase_hw.emit.preflight import preflight
from mase_hw.errors import FormatError
from mase_hw.formats import make_format
from mase_hw.formats.fixed import Fixed
from mase_hw.graph import trace
from mase_hw.graph.reference import IntegerReference, spec
from mase_hw.ops import Apply

BLOCKS = {
    "mxint8": {"name": "mxint", "width": 8, "block_size": 4},
    "mxint8 narrow": {"name": "mxint", "width": 8, "block_size": 4, "exponent_width": 5},
    "mxint4": {"name": "mxint", "width": 4, "block_size": 2, "exponent_width": 4},
    "block_minifloat": {"name": "block_minifloat", "width": 8, "block_size": 4},
    "block_minifloat narrow": {
        "name": "block_minifloat",
        "width": 8,
        "exponent_width": 3,
        "exponent_bias_width": 4,
        "block_size": 4,
    },
    "block_fp": {"name": "block_fp", "width": 6, "exponent_width": 8, "exponent_bias": 250},
    "mxfp8": {"name": "mxfp8", "block_size": 4},
    "mxfp4": {"name": "mxfp4", "block_size": 4, "exponent_width": 4},
    "block_log": {"name": "block_log", "width": 4, "block_size": 4},
}
SCALARS = {
    "fp8_e4m3": {"name": "fp8_e4m3"},
    "fp8_e5m2": {"name": "fp8_e5m2"},
    "fp4_e2m1": {"name": "fp4_e2m1"},
    "minifloat": {"name": "minifloat_denorm", "width": 7, "exponent_width": 3},
    "log": {"name": "log", "width": 5},
}
WIDE = ("mxint8", "block_minifloat", "block_fp", "mxfp8", "block_log")


def rationals(number, codes):
    return [Fraction(value) for value in number.decode(codes).flatten().tolist()]


def codes_of(number, count=64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return number.random_codes((count // 8, 8), generator)


@pytest.mark.parametrize("name", [*BLOCKS, *SCALARS])
def test_a_float_holds_every_value(name):
    number = make_format({**BLOCKS, **SCALARS}[name])
    carrier = exact_float(number)
    codes = codes_of(number, 4096)
    carried = carrier.from_scaled(*number.significands(codes))
    assert rationals(carrier, carried) == rationals(number, codes)


@pytest.mark.parametrize("name", [*BLOCKS, *SCALARS])
def test_fixed_point_holds_every_value_where_there_is_one(name):
    number = make_format({**BLOCKS, **SCALARS}[name])
    carrier = exact_fixed(number)
    assert (carrier is None) == (name in WIDE) == (exact_bits(number)[0] > 62)
    if carrier is not None:
        codes = codes_of(number, 4096)
        carried = carrier.from_scaled(*number.significands(codes))
        scale = Fraction(2) ** -carrier.frac_width
        assert [code * scale for code in carried.flatten().tolist()] == rationals(number, codes)


def test_what_has_no_exact_scalar_has_none():
    nvfp4 = make_format({"name": "nvfp4"})
    assert exact_float(nvfp4) is None
    assert exact_fixed(nvfp4) is None
    channels = {"scale": [0.3, 0.2], "channel_axis": 0}
    residual = {"name": "binary_residual", "scale": 0.3}
    assert exact_fixed(make_format({"name": "scaled_integer", "scale": 0.3})) is None
    assert exact_fixed(make_format(residual)) is None
    assert exact_fixed_of(make_format(residual), torch.randn(5)) is None
    assert exact_fixed(make_format({"name": "scaled_integer", **channels})) is None


@pytest.mark.parametrize("name", [*BLOCKS, *SCALARS])
def test_constants_take_the_bits_of_their_values(name):
    number = make_format({**BLOCKS, **SCALARS}[name])
    values = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
    found = exact_fixed_of(number, values)
    rounded = rationals(number, number.encode(values))
    codes = [value * Fraction(2) ** found.frac_width for value in rounded]
    assert all(code.denominator == 1 for code in codes)
    assert any(code.numerator % 2 for code in codes)
    assert max(abs(code) for code in codes) >= 1 << (found.width - 2)
    assert found.minimum_code <= min(codes) <= max(codes) <= found.maximum_code


@cache
def table(number):
    """Return the values of a scalar float in order, with their codes."""
    layout = number.layout
    values = number.decode(torch.arange(layout.maximum_code + 1)).tolist()
    return [Fraction(value) for value in values]


def scalar_code(number, value):
    """Return the code of the nearest value, ties to the even code, or away without a mantissa."""
    values, magnitude = table(number), abs(value)
    best = min(abs(item - magnitude) for item in values)
    ties = [code for code, item in enumerate(values) if abs(item - magnitude) == best]
    away = number.layout.mantissa_width == 0
    if away and ties[0] == 0:
        # Half of the smallest power of two becomes zero.
        return 0
    code = ties[-1] if away else next((tie for tie in ties if tie % 2 == 0), ties[0])
    return code | (number.layout.sign if value < 0 else 0)


def floor_log2(value):
    place = value.numerator.bit_length() - value.denominator.bit_length()
    return place - (Fraction(2) ** place > value)


def block_values(number, values):
    element, scale = number.element, number.scale
    largest = max(map(abs, values))
    place = -(1 << 20)
    if largest:
        place = floor_log2(largest) + (scale.nearest and largest / 2 ** floor_log2(largest) >= 1.5)
    shared = place - element.exponent
    shared = min(max(shared, -scale.bias), scale.codes - 1 - scale.bias)
    found = []
    for value in values:
        scaled = value / Fraction(2) ** shared
        if hasattr(element, "mantissa_width"):
            codes = torch.arange(element.maximum_code + 1)
            grid = [Fraction(item) for item in element.decode(codes).tolist()]
            best = min(abs(item - abs(scaled)) for item in grid)
            ties = [code for code, item in enumerate(grid) if abs(item - abs(scaled)) == best]
            even = next((tie for tie in ties if tie % 2 == 0), ties[0])
            rounded = grid[ties[-1] if element.mantissa_width == 0 else even]
            rounded = -rounded if scaled < 0 else rounded
        else:
            step = Fraction(2) ** element.lsb_exponent
            limit = (1 << (element.width - 1)) - 1
            # Python rounds ties to even.
            rounded = min(max(round(scaled / step), -limit), limit) * step
        found.append(rounded * Fraction(2) ** shared)
    return found


def encoded(number, values, axis):
    """Return rational results in a format, as an array of objects becomes one."""
    if not hasattr(number, "blocking"):
        codes = [scalar_code(number, value) for value in values.flatten()]
        return [Fraction(item) for item in number.decode(torch.tensor(codes)).tolist()]
    import numpy as np

    size = number.blocking[0]
    moved = np.moveaxis(values, axis, -1).copy()
    for index in np.ndindex(moved.shape[:-1]):
        row = list(moved[index])
        for first in range(0, len(row), size):
            row[first : first + size] = block_values(number, row[first : first + size])
        moved[index] = row
    return list(np.moveaxis(moved, -1, axis).flatten())


@settings(max_examples=80, deadline=None)
@given(
    name=st.sampled_from(["fp8_e4m3", "fp4_e2m1", "minifloat", "log"]),
    divisor=st.integers(1, 200),
    data=st.data(),
)
def test_means_are_rounded_once(name, divisor, data):
    """Also those that lie just beside the half of two numbers."""
    number = make_format(SCALARS[name])
    carrier = exact_fixed(number)
    wide = exact_quotient(carrier, 1, divisor, exact_bits(number)[1] + 1)
    values = table(number)
    place = data.draw(st.integers(0, len(values) - 2))
    half = (values[place] + values[place + 1]) / 2 * divisor * 2**carrier.frac_width
    codes = [round(half) + step for step in (-1, 0, 1)]
    quotient = Quotient(carrier.frac_width, divisor, wide)
    found = number.from_fixed(quotient(torch.tensor(codes)), wide.frac_width)
    exact = [Fraction(code, divisor) / 2**carrier.frac_width for code in codes]
    assert found.tolist() == [scalar_code(number, value) for value in exact]


def entry(fields):
    name = fields["name"]
    others = {key: value for key, value in fields.items() if key != "name"}
    return {"name": name, **{f"data_in_{key}": value for key, value in others.items()}}


def array(values, shape):
    import numpy as np

    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found.reshape(shape)


def windows(values, reduce):
    import numpy as np

    batch, channels, height, width = values.shape
    found = np.empty((batch, channels, height // 2, width // 2), dtype=object)
    for index in np.ndindex(found.shape):
        b, c, y, x = index
        found[index] = reduce(values[b, c, 2 * y : 2 * y + 2, 2 * x : 2 * x + 2].flatten())
    return found


# Module, what it computes on arrays of rational numbers, the axis of the result's blocks.
OPERATORS = {
    "max_pool2d": (nn.MaxPool2d(2), lambda x: windows(x, max), -1),
    "avg_pool2d": (nn.AvgPool2d(2), lambda x: windows(x, lambda w: sum(w) / len(w)), -1),
    "adaptive_avg_pool2d": (
        nn.AdaptiveAvgPool2d(1),
        lambda x: (x.sum(-1) / x.shape[-1]).sum(-1)[..., None, None] / x.shape[-2],
        -1,
    ),
    "mean": (Apply(lambda x: x.mean(-1)), lambda x: x.sum(-1) / x.shape[-1], -1),
    "sum": (Apply(lambda x: x.sum((2, 3))), lambda x: x.sum(-1).sum(-1), -1),
    "amax": (Apply(lambda x: x.amax(-1)), lambda x: x.max(-1), -1),
    "flatten": (nn.Flatten(), lambda x: x.reshape(len(x), -1), -1),
}
EXACT = [name for name in (*BLOCKS, *SCALARS) if name not in WIDE]
OFTEN = ("mxint8 narrow", "block_minifloat narrow", "fp8_e4m3", "mxint8")
CASES = [
    pytest.param(*case, marks=[] if case[1] in OFTEN else pytest.mark.full)
    for case in (*product(OPERATORS, EXACT), *product(("max_pool2d", "amax", "flatten"), WIDE))
]


@pytest.mark.parametrize(("operator", "name"), CASES)
def test_results_are_exact_ones_rounded_once(operator, name):
    module, compute, axis = OPERATORS[operator]
    inputs = torch.randn(3, 3, 6, 6, generator=torch.Generator().manual_seed(1))
    fields = {**BLOCKS, **SCALARS}[name]
    mg = quantize(trace(module.eval(), inputs), {"default": {"config": entry(fields)}})
    result = spec(mg.outputs[0]).quantized
    hardware = to_hardware(mg)
    assert spec(hardware.outputs[0]).quantized == result
    given = spec(hardware.inputs[0]).quantized
    codes = given.encode(inputs)
    (found,) = IntegerReference(hardware)([codes]).values()
    values = array(rationals(given, codes), inputs.shape)
    expected = encoded(result, compute(values), axis)
    assert rationals(result, found) == expected


SCALED = {
    "max_pool2d": (nn.MaxPool2d(2), lambda x: windows(x, max)),
    "avg_pool2d": (nn.AvgPool2d(2), lambda x: windows(x, lambda w: sum(w) / len(w))),
    "mean": (Apply(lambda x: x.mean(-1)), lambda x: x.sum(-1) / x.shape[-1]),
    "sum": (Apply(lambda x: x.sum(-1)), lambda x: x.sum(-1)),
    "amax": (Apply(lambda x: x.amax(-1)), lambda x: x.max(-1)),
}


def in_steps(number, codes, scale):
    ratio = Fraction(number.scale) / Fraction(scale)
    if ratio != 1:
        unit = Fraction(2) ** (floor_log2(ratio) - 17)
        ratio = round(ratio / unit) * unit
    return [(code - number.zero_point) * ratio for code in codes.flatten().tolist()]


def stepped(number, values):
    """Return the codes of rational numbers of steps; Python rounds ties to even."""
    low, high = number.code_range
    return [min(max(round(value) + number.zero_point, low), high) for value in values]


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("operator", SCALED)
def test_scaled_integers_are_rounded_once(operator, symmetric):
    module, compute = SCALED[operator]
    inputs = torch.randn(3, 3, 6, 6, generator=torch.Generator().manual_seed(1)) + 0.5
    fields = {"name": "scaled_integer", "width": 8, "symmetric": symmetric}
    config = {**entry(fields), "data_out_width": 8, "data_out_symmetric": symmetric}
    mg = quantize(trace(module.eval(), inputs), {"default": {"config": config}})
    result = spec(mg.outputs[0]).quantized
    hardware = to_hardware(mg)
    given = spec(hardware.inputs[0]).quantized
    codes = given.encode(inputs)
    (found,) = IntegerReference(hardware)([codes]).values()
    values = array(in_steps(given, codes, result.scale), inputs.shape)
    assert found.flatten().tolist() == stepped(result, compute(values).flatten())


def test_sums_of_scaled_integers_are_rounded_once():
    first, second = torch.randn(2, 4, 7, 5, generator=torch.Generator().manual_seed(3))
    second = second * 3 + 1
    fields = {"name": "scaled_integer", "width": 8, "symmetric": False}
    mg = quantize(trace(Apply(torch.add), (first, second)), {"default": {"config": entry(fields)}})
    result = spec(mg.outputs[0]).quantized
    hardware = to_hardware(mg)
    formats = [spec(node).quantized for node in hardware.inputs]
    assert len({number.scale for number in [*formats, result]}) == 3
    codes = [number.encode(item) for number, item in zip(formats, (first, second), strict=True)]
    (found,) = IntegerReference(hardware)(codes).values()
    steps = [in_steps(*pair, result.scale) for pair in zip(formats, codes, strict=True)]
    assert found.flatten().tolist() == stepped(result, map(sum, zip(*steps, strict=True)))


def test_truths_are_taken_in_steps_of_a_scale():
    first, second = torch.randint(-2, 3, (2, 4, 7), generator=torch.Generator().manual_seed(7))
    first, second = first.float(), second.float()
    model = Apply(lambda x, y: torch.eq(x, y) * 0.75)
    fields = {"name": "scaled_integer", "width": 8}
    hardware = to_hardware(
        quantize(trace(model, (first, second)), {"default": {"config": entry(fields)}})
    )
    formats = [spec(node).quantized for node in hardware.inputs]
    codes = [number.encode(item) for number, item in zip(formats, (first, second), strict=True)]
    (found,) = IntegerReference(hardware)(codes).values()
    result = spec(hardware.outputs[0]).quantized
    assert torch.equal(found.flatten(), result.encode(model(first, second)).flatten())


def test_functions_of_scaled_integers_are_tables():
    inputs = torch.randn(4, 50, generator=torch.Generator().manual_seed(4))
    fields = {"name": "scaled_integer", "width": 8, "symmetric": False}
    mg = quantize(trace(nn.ReLU(), inputs), {"default": {"config": entry(fields)}})
    given, result = (spec(node).quantized for node in (mg.inputs[0], mg.outputs[0]))
    low, high = given.code_range
    codes = torch.arange(low, high + 1).reshape(-1, 1).expand(-1, 50)
    (found,) = IntegerReference(to_hardware(mg))([codes]).values()
    ratio = Fraction(given.scale) / Fraction(result.scale)
    exact = [max(0, code - given.zero_point) * ratio for code in range(low, high + 1)]
    assert found[:, 0, 0].tolist() == stepped(result, exact)


def test_moves_in_a_row_are_encoded_once():
    """Between them elements keep their own scales."""
    model = Apply(lambda x: x.flatten(1).reshape(-1, 4, 9).transpose(1, 2))
    inputs = torch.randn(2, 3, 3, 4, generator=torch.Generator().manual_seed(2))
    config = {"default": {"config": entry(BLOCKS["mxint8"])}}
    mg = to_hardware(quantize(trace(model, inputs), config))
    given, result = (spec(node).quantized for node in (mg.inputs[0], mg.outputs[0]))
    codes = given.encode(inputs)
    (found,) = IntegerReference(mg)([codes]).values()
    moved = array(rationals(given, codes), inputs.shape).reshape(2, 4, 9).transpose(0, 2, 1)
    assert rationals(result, found) == encoded(result, moved, -1)
    assert len([node for node in mg.nodes if "cast" in node.name]) == 2


def test_sums_of_scales_of_many_exponents_are_refused_with_what_helps():
    config = {"default": {"config": entry(BLOCKS["mxint8"])}}
    mg = quantize(trace(nn.AvgPool2d(2), torch.randn(2, 3, 4, 4)), config)
    (problem,) = preflight(mg)
    assert "take 262 bits, 62 at most are carried" in problem.reason
    assert "give its exponents, or those of its scales, fewer bits" in problem.reason


def test_blocks_of_several_inferences_are_refused():
    """A sum over all else leaves one number for each inference."""
    config = {"default": {"config": entry(BLOCKS["mxint8 narrow"])}}
    module = Apply(lambda x: x.sum((1, 2)))
    (problem,) = preflight(quantize(trace(module, torch.randn(3, 4, 4)), config))
    assert "data_out_0 has blocks along the batch, its only dimension" in problem.reason


def test_fixed_point_stays_as_it_is():
    mg = quantize(trace(nn.MaxPool2d(2), torch.randn(2, 3, 4, 4)))
    names = [node.name for node in mg.nodes]
    assert [node.name for node in to_hardware(mg).nodes] == names


def test_exact_fixed_point_has_no_configuration():
    assert Fixed(62, 40).width == 62
    with pytest.raises(FormatError, match="width is 33; allowed: an integer from 2 to 32"):
        Fixed.fit(-1.0, 1.0, width=33)


MXINT8 = {"name": "mxint", "width": 8, "block_size": 4, "exponent_width": 4}
# Rows of scores take fewer exponents.
SCORES = {**MXINT8, "exponent_width": 3}


def transformer_config():
    both = {f"weight_{key}": value for key, value in MXINT8.items() if key != "name"}
    return {
        "by": "type",
        "default": {"config": entry(MXINT8) | both},
        "softmax": {"config": entry(SCORES)},
    }


def test_products_of_streams_are_exact():
    first, second = torch.randn(2, 3, 2, 4, 4, generator=torch.Generator().manual_seed(5))
    mg = quantize(trace(Apply(torch.matmul), (first, second)), transformer_config())
    result = spec(mg.outputs[0]).quantized
    hardware = to_hardware(mg)
    formats = [spec(node).quantized for node in hardware.inputs]
    codes = [number.encode(item) for number, item in zip(formats, (first, second), strict=True)]
    (found,) = IntegerReference(hardware)(codes).values()
    left, right = (array(rationals(*pair), (6, 4, 4)) for pair in zip(formats, codes, strict=True))
    products = array([a @ b for a, b in zip(left, right, strict=True)], (6,))
    import numpy as np

    expected = encoded(result, np.stack(list(products)), -1)
    assert rationals(result, found) == expected


@pytest.mark.parametrize(
    ("module", "places"), [(nn.Softmax(-1), 1.0), (nn.LayerNorm(8), 1.0), (nn.RMSNorm(8), 1.0)]
)
def test_rows_are_within_a_step_of_their_block(module, places):
    """Weights are those of a trained layer, and rounded to the format before."""
    torch.manual_seed(6)
    for parameter in module.parameters():
        nn.init.uniform_(parameter, -1.5, 1.5)
    inputs = torch.randn(40, 3, 8) * 2
    mg = quantize(trace(module.eval(), inputs), {"default": {"config": entry(SCORES)}})
    given, result = (spec(node).quantized for node in (mg.inputs[0], mg.outputs[0]))
    codes = given.encode(inputs)
    (found,) = IntegerReference(to_hardware(mg))([codes]).values()
    exact = mg.copy().double()(given.decode(codes).reshape(inputs.shape))
    values = result.decode(found).reshape(exact.shape)
    _, exponents = result.split(result.encode(exact))
    steps = torch.pow(2.0, exponents.double() + result.element.lsb_exponent)
    assert bool(((values - exact).abs() <= places * steps).all())
    assert float((values == exact).double().mean()) > 0.9


def test_an_encoder_layer_has_hardware_in_blocks():
    torch.manual_seed(0)
    ids = torch.randint(0, 11, (4, 4))
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu")
    model = nn.Sequential(nn.Embedding(11, 8), layer).eval()
    mg = quantize(trace(model, ids), transformer_config())
    assert preflight(mg) == []
    hardware = to_hardware(mg)
    (found,) = IntegerReference(hardware)([ids]).values()
    values = spec(hardware.outputs[0]).quantized.decode(found).reshape(4, 4, 8)
    assert spec(hardware.outputs[0]).quantized.name == "mxint"
    with torch.no_grad():
        assert (values - model(ids)).abs().max() < 0.1
