"""Convolutions, pools and reductions against torch, and their modules in whole networks."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import mase_hw
from mase_hw.arithmetic.quotient import Quotient
from mase_hw.cells.sliding_window import Sliding
from mase_hw.emit.flow import quantize
from mase_hw.errors import MaseError
from mase_hw.formats.fixed import ROUNDING_MODES, Fixed
from mase_hw.geometry.window import Axis, Window
from mase_hw.graph import trace
from mase_hw.graph.reference import IntegerReference, spec
from mase_hw.ops import Apply, Call, Order, TensorSpec, operators
from tests.cells.rational import fixed_code
from tests.engines import as_predicted, exact

FORMAT = Fixed(8, 4)
WIDE = Fixed(32, 8)


def conv_call(name, data, weight, bias, result_shape, **attributes):
    """Return a call whose operands are codes of small formats, with an exact result."""
    constants = {"weight": FORMAT.decode(weight)}
    if bias is not None:
        constants["bias"] = FORMAT.decode(bias)
    operands = {
        "data_in_0": TensorSpec((1, *data.shape[1:]), format=FORMAT),
        **{key: TensorSpec(tuple(value.shape), format=FORMAT) for key, value in constants.items()},
    }
    result = TensorSpec((1, *result_shape[1:]), format=WIDE)
    return Call(name, operators()[name], operands, {"data_out_0": result}, constants, attributes)


def codes(*shape, seed=0):
    return FORMAT.random_codes(shape, torch.Generator().manual_seed(seed))


def test_the_fraction_bits_of_a_bias_widen_sums_up_to_62_bits():
    options = {"stride": [1, 1], "padding": [0, 0], "dilation": [1, 1], "groups": 1}
    operands = codes(1, 1, 3, 3), codes(1, 1, 2, 2), codes(1)
    weights = operands[1].flatten().tolist()
    call = conv_call("conv2d", *operands, (1, 1, 2, 2), **options)
    product = FORMAT.frac_width * 2
    refused = []
    for frac_width in range(45, 60):
        given = replace(call.operands["bias"], format=Fixed(8, frac_width))
        found = replace(call, operands={**call.operands, "bias": given})
        # The least and the largest sum of these weights, in steps of the bias.
        start = int(Fixed(8, frac_width).encode(call.constants["bias"])[0])
        ends = [sum(pick(w * -128, w * 127) for w in weights) for pick in (min, max)]
        ends = [(end << (frac_width - product)) + start for end in ends]
        bits = max(ends[1].bit_length(), (-ends[0] - 1).bit_length()) + 1
        refused.append(bool(found.operator.problems(found)))
        assert refused[-1] or bits <= 62, frac_width
        assert not refused[-1] or bits >= 61, frac_width
    assert refused == sorted(refused)
    assert not refused[0] and refused[-1]


SHORT = settings(max_examples=40, deadline=None)


@SHORT
@given(st.data())
def test_conv2d_is_torch(data):
    draw = data.draw
    groups = draw(st.sampled_from([1, 2, 3]))
    channels, results = groups * draw(st.integers(1, 2)), groups * draw(st.integers(1, 2))
    kernel = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    options = {
        "stride": [draw(st.integers(1, 3)), draw(st.integers(1, 3))],
        "padding": [draw(st.integers(0, 2)), draw(st.integers(0, 2))],
        "dilation": [draw(st.integers(1, 2)), draw(st.integers(1, 2))],
        "groups": groups,
    }
    image = codes(2, channels, draw(st.integers(5, 8)), draw(st.integers(5, 8)))
    weight = codes(results, channels // groups, *kernel, seed=1)
    bias = codes(results, seed=2)
    expected = F.conv2d(image.double(), weight.double(), (bias << 4).double(), **options).long()
    call = conv_call("conv2d", image, weight, bias, expected.shape, **options)
    assert call.operator.problems(call) == []
    assert torch.equal(call.operator.reference(call)(image), expected)


@SHORT
@given(st.data())
def test_conv_transpose2d_is_torch(data):
    draw = data.draw
    groups = draw(st.sampled_from([1, 2]))
    channels, results = groups * draw(st.integers(1, 2)), draw(st.integers(1, 3))
    stride = [draw(st.integers(1, 3)), draw(st.integers(1, 3))]
    options = {
        "stride": stride,
        "padding": [draw(st.integers(0, 1)), draw(st.integers(0, 1))],
        "output_padding": [draw(st.integers(0, size - 1)) for size in stride],
        "groups": groups,
        "dilation": [draw(st.integers(1, 2)), draw(st.integers(1, 2))],
    }
    image = codes(2, channels, draw(st.integers(2, 4)), draw(st.integers(2, 4)))
    weight = codes(channels, results, draw(st.integers(2, 3)), draw(st.integers(2, 3)), seed=1)
    try:
        expected = F.conv_transpose2d(image.double(), weight.double(), None, **options).long()
    except RuntimeError:
        return  # An output padding that torch refuses.
    call = conv_call("conv_transpose2d", image, weight, None, expected.shape, **options)
    assert torch.equal(call.operator.reference(call)(image), expected)


@SHORT
@given(
    st.lists(st.integers(-4000, 4000), min_size=1, max_size=20),
    st.integers(1, 400),
    st.integers(-3, 9),
    st.integers(-3, 12),
    st.sampled_from(ROUNDING_MODES),
)
def test_quotients_are_correctly_rounded(numerators, divisor, fraction, result_fraction, rounding):
    quotient = Quotient(fraction, divisor, Fixed(12, result_fraction, rounding=rounding))
    found = quotient(torch.tensor(numerators)).tolist()
    step = Fraction(2) ** -fraction / divisor
    assert found == [fixed_code(quotient.result, numerator * step) for numerator in numerators]


@SHORT
@given(st.data())
def test_pools_are_torch(data):
    draw = data.draw
    kernel = [draw(st.integers(1, 3)), draw(st.integers(1, 3))]
    stride = [draw(st.integers(1, 3)), draw(st.integers(1, 3))]
    padding = [draw(st.integers(0, size // 2)) for size in kernel]
    ceil_mode, counted = draw(st.booleans()), draw(st.booleans())
    image = codes(2, 3, draw(st.integers(4, 7)), draw(st.integers(4, 7)))
    inputs = {"data_in_0": TensorSpec((1, *image.shape[1:]), format=FORMAT)}

    def compute(name, expected, **attributes):
        results = {"data_out_0": TensorSpec((1, *expected.shape[1:]), format=FORMAT)}
        call = Call(name, operators()[name], inputs, results, {}, attributes)
        return call.operator.reference(call)(image)

    largest = F.max_pool2d(image.double(), kernel, stride, padding, ceil_mode=ceil_mode)
    options = {"kernel_size": kernel, "stride": stride, "padding": padding}
    assert torch.equal(compute("max_pool2d", largest, **options, dilation=1), largest.long())
    mean = F.avg_pool2d(image.double(), kernel, stride, padding, ceil_mode, counted)
    found = compute("avg_pool2d", mean, **options, count_include_pad=counted)
    # The mean of codes is rounded to a code, ties to even.
    assert torch.equal(found, mean.round().long())
    size = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    shared = F.adaptive_avg_pool2d(image.double(), size)
    near = (compute("adaptive_avg_pool2d", shared, output_size=size) - shared).abs()
    assert near.max() <= 0.5 + 1e-9


def test_the_first_of_equal_maxima_wins(tmp_path):
    graph = quantize(trace(Apply(lambda x: x.argmax(1)), (torch.randn(2, 6),)))
    number = spec(graph.inputs[0]).quantized
    top = number.maximum_code
    found = IntegerReference(graph)([torch.tensor([[[0, top, 1, top, 2, 0]], [[-3] * 6]])])
    (indices,) = found.values()
    assert indices.flatten().tolist() == [1, 0]
    result = spec(next(node for node in graph.nodes if node.op == "call_function"))
    assert str(result.format) == "ufixed<3,0>"
    project = mase_hw.emit_verilog(graph, output=tmp_path / "project", parallelism=3)
    few = torch.randint(-1, 2, (40, 6), generator=torch.Generator().manual_seed(0)).float()
    assert as_predicted(project, few).elements == 40


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "rows"),
    [(3, 1, 1, 4), (3, 1, 0, 6), (5, 1, 2, 6), (2, 2, 0, 4), (3, 2, 1, 5), (1, 1, 0, 1)],
)
def test_a_window_stores_a_few_rows(kernel, stride, padding, rows):
    size = 32
    positions = (size + 2 * padding - kernel) // stride + 1
    axis = Axis.sliding(size, kernel, stride, 1, padding, positions)
    window = Window(axis, axis, tiles=2, block_tiles=2)
    assert window.depth <= rows * size * 2


@SHORT
@given(st.data())
def test_a_window_keeps_its_interval(data):
    """Inputs that come evenly at the interval leave no gap from the second image on."""
    draw = data.draw

    def axis():
        size = draw(st.integers(3, 7))
        kernel, stride = draw(st.integers(1, 3)), draw(st.integers(1, 2))
        padding = draw(st.integers(0, kernel - 1))
        positions = (size + 2 * padding - kernel) // stride + 1
        return Axis.sliding(size, kernel, stride, 1, padding, positions)

    tiles = draw(st.integers(1, 2))
    window = Window(axis(), axis(), tiles, tiles, draw(st.integers(1, 3)))
    window = replace(window, elements=draw(st.integers(1, window.block_elements)))
    images, interval = 5, window.work_cycles
    offered = np.arange(images * window.inputs) * interval // window.inputs
    ends = Sliding(window).offered({"": offered}).reshape(images, -1)[:, -1]
    assert ends[-1] - ends[-2] <= interval + 1
    # Inputs that come at once are not slower either.
    ends = (
        Sliding(window).offered({"": np.arange(images * window.inputs)}).reshape(images, -1)[:, -1]
    )
    assert ends[-1] - ends[-2] <= interval + window.rows.kernel * window.columns.size


def simulated(module, inputs, parallelism, folder, stalls=(0.0, 0.3)):
    project = mase_hw.emit_verilog(
        module.eval(), inputs, output=folder / "project", parallelism=parallelism
    )
    for stall in stalls:
        report = exact(project, samples=12, stall=stall, seed=5)
        if not stall:
            assert report.latency_cycles == report.predicted_latency_cycles
            assert report.interval_cycles == report.predicted_interval_cycles
    return project


IMAGES = nn.Sequential(
    nn.Conv2d(2, 4, 3, stride=(1, 2), padding=(1, 2)),
    nn.ReLU(),
    nn.BatchNorm2d(4),
    nn.MaxPool2d(3, 2, padding=1),
    nn.Conv2d(4, 4, 3, padding="same", groups=4, bias=False),
    nn.Upsample(scale_factor=2),
    nn.Conv2d(4, 6, 1),
    nn.ReLU(),
    nn.AvgPool2d(3, 1, padding=1),
    nn.Conv2d(6, 4, 2, groups=2, dilation=2),
    nn.AdaptiveAvgPool2d((2, 1)),
    nn.Flatten(),
    nn.Linear(8, 5),
)
SIGNALS = nn.Sequential(
    nn.Conv1d(3, 4, 5, padding=2, padding_mode="circular"),
    nn.ReLU(),
    nn.MaxPool1d(2),
    nn.ConvTranspose1d(4, 3, 3, stride=2),
    Apply(lambda x: x[:, :, 1:-2]),
    Apply(lambda x: x.mean(2) / 2),
    Apply(lambda x: x.argmax(1)),
)


def _networks():
    for name, module, shape in [("images", IMAGES, (4, 2, 9, 8)), ("signals", SIGNALS, (4, 3, 12))]:
        for parallelism in (1, 2, 3, 4):
            marks = [] if (name, parallelism) == ("signals", 2) else [pytest.mark.full]
            yield pytest.param(module, shape, parallelism, marks=marks, id=f"{name}-{parallelism}")


@pytest.mark.parametrize(("module", "shape", "parallelism"), list(_networks()))
def test_networks_are_bit_exact_at_the_predicted_speed(module, shape, parallelism, tmp_path):
    torch.manual_seed(0)
    simulated(module, torch.randn(shape), parallelism, tmp_path)


UNROLLED = {
    "default": 2,
    "conv2d_0": {"weight_dim_0": 10, "data_out_0_dim_0": 4},
    "conv2d_4": {"weight_dim_0": 9},
    "conv2d_6": {"data_in_0_dim_0": 1, "weight_dim_0": 4},
    "conv2d_9": {"weight_dim_0": 5, "data_in_0_dim_0": 1, "data_out_0_dim_0": 1},
}


@pytest.mark.full
def test_sums_take_several_elements_of_a_window_per_cycle(tmp_path):
    """Padded, whole, pointwise on a narrow stream, and in groups."""
    torch.manual_seed(0)
    project = simulated(IMAGES, torch.randn(4, 2, 9, 8), UNROLLED, tmp_path)
    work = {item.node: (item.work_cycles, item.multipliers) for item in project.design.nodes}
    # 2 x 3 x 3 elements in beats of 5 tiles, of one tile of results.
    assert work["conv2d_0"] == (9 * 5 * 2, 40)
    # The whole window of four channels at once; pixels enter as fast.
    assert work["conv2d_4"] == (5 * 3, 36)
    assert work["conv2d_6"][1] == 4


FITS = r"multiples of 2 up to 18 \(2, 6, 18 without padding\)"


@pytest.mark.parametrize(
    ("layer", "allowed"),
    [
        *(({"weight_dim_0": value}, FITS) for value in (0, 7, 20, True, "all")),
        ({"data_in_0_dim_1": 2}, "allowed: 1 to 1"),
    ],
)
def test_what_does_not_fit_a_window_is_refused_with_what_does(layer, allowed, tmp_path):
    table = {"default": 2, "conv2d": layer}
    with pytest.raises(MaseError, match=allowed):
        mase_hw.emit_verilog(
            Apply(lambda x, w: F.conv2d(x, w), torch.randn(2, 2, 3, 3)),
            torch.randn(2, 2, 5, 5),
            output=tmp_path,
            parallelism=table,
        )


def test_a_flattened_image_is_a_wire(tmp_path):
    module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(36, 3))
    project = mase_hw.emit_verilog(module, torch.randn(2, 1, 5, 5), output=tmp_path, parallelism=2)
    modules = {item.node: item.module for item in project.design.nodes}
    assert modules["flatten_2"] is None
    assert "mase_reorder_fixed" not in modules.values()
    (entering,) = project.design.inputs
    assert entering.spec.order == Order.channels_last((1, 1, 5, 5))


@pytest.mark.parametrize(
    ("module", "shape", "words"),
    [
        (Apply(lambda x: x.sum((1, 3))), (2, 3, 4, 5, 2), "side by side"),
        (Apply(lambda x: x.mean(0)), (1, 3), "batch"),
        (Apply(lambda x: x / 0), (2, 3), "not all finite"),
        (Apply(lambda x: x[:, 2:2]), (2, 3), "no element"),
        (nn.Conv2d(2, 2, 3), (2, 5, 5), "batch dimension"),
    ],
)
def test_what_has_no_hardware_is_refused(module, shape, words, tmp_path):
    with pytest.raises(MaseError, match=words):
        mase_hw.emit_verilog(module, torch.randn(shape), output=tmp_path / "x")
