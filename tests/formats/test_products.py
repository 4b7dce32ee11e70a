"""Linear layers, convolutions and casts in every format, and networks of several formats."""

from itertools import permutations

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.arithmetic.requantize import cast_reference
from mase_hw.emit.flow import canonicalize, quantize
from mase_hw.emit.preflight import preflight
from mase_hw.formats import make_format
from mase_hw.graph import trace
from mase_hw.graph.reference import IntegerReference, output_nodes, spec
from mase_hw.models.convolutional import MnistCNN
from mase_hw.models.perceptrons import DigitsMLP
from mase_hw.ops import operators
from tests.engines import exact

FULL = pytest.mark.full
BIAS = {"bias_name": "fixed", "bias_width": 8}
PRODUCTS = {
    "mxint8": {"name": "mxint", "data_in_block_size": 4},
    "mxint6": {"name": "mxint", "data_in_width": 6, "data_in_block_size": 2},
    "mxint4": {
        "name": "mxint", "data_in_width": 4, "data_in_block_size": 8, "data_in_exponent_width": 4,
    },
    "block_fp": {"name": "block_fp", "data_in_width": 5, "data_in_block_size": 4},
    "mxfp8": {"name": "mxfp8", "data_in_block_size": 4},
    "mxfp6 by mxfp4": {
        "name": "mxfp6", "data_in_block_size": 4, "weight_name": "mxfp4", "weight_block_size": 4,
    },
    "mxint by mxfp to log": {
        "name": "mxint", "data_in_block_size": 4, "weight_name": "mxfp8", "weight_block_size": 4,
        "data_out_name": "log", "data_out_width": 5,
    },
    "block_minifloat": {"name": "block_minifloat", "data_in_width": 7, "data_in_block_size": 4},
    "block_log": {"name": "block_log", "data_in_width": 4, "data_in_block_size": 4},
    "e4m3 to mxint": {"name": "fp8_e4m3", "data_out_name": "mxint", "data_out_block_size": 4},
    "log": {"name": "log", "data_in_width": 5, **BIAS},
    "ternary": {
        "name": "ternary", "data_in_scale": 1.0, "weight_scale": 0.5, "weight_threshold": 0.1,
        **BIAS,
    },
    "binary": {"name": "binary", **BIAS},
    "binary 0 1": {"name": "binary", "data_in_bipolar": False, **BIAS},
    "binary_scaling": {
        "name": "binary_scaling", "data_in_scale": 1.0, "weight_scale": 0.25, **BIAS,
    },
    "residual": {
        "name": "binary_residual", "data_in_levels": 2, "data_in_scale": 1.0,
        "weight_scale": 0.5, **BIAS,
    },
}  # fmt: skip
SHORT = ("mxint4", "mxfp8", "binary", "ternary")


class SideBySide(nn.Module):
    """A convolution, a convolution and a linear layer over its channels for each configuration."""

    def __init__(self, count):
        super().__init__()
        self.images = nn.ModuleList(
            nn.Sequential(nn.Conv2d(3, 5, (3, 2), padding=1, stride=(1, 2)), nn.Conv2d(5, 3, 2))
            for _ in range(count)
        )
        self.rows = nn.ModuleList(nn.Linear(7, 5) for _ in range(count))

    def forward(self, *inputs):
        half = len(inputs) // 2
        images = zip(self.images, inputs[:half], strict=True)
        rows = zip(self.rows, inputs[half:], strict=True)
        return tuple(layer(value) for layer, value in (*images, *rows))


def side_by_side(names):
    """Return the quantised graph of all layers, one configuration after the other."""
    torch.manual_seed(0)
    model = SideBySide(len(names)).eval()
    inputs = [torch.randn(1, 3, 4, 3) for _ in names] + [torch.randn(1, 7) for _ in names]
    graph = trace(model, tuple(inputs))
    nodes = [node.name for node in graph.nodes if node.op == "call_function"]
    entries = [PRODUCTS[name] for name in names]
    by_node = [entry for entry in entries for _ in range(2)] + entries
    config = {"by": "name"}
    config |= {node: {"config": entry} for node, entry in zip(nodes, by_node, strict=True)}
    return quantize(graph, config)


def values_of(mg, samples):
    generator = torch.Generator().manual_seed(2)
    values = [
        torch.randn(samples, *spec(node).shape[1:], generator=generator) for node in mg.inputs
    ]
    numbers = [spec(node).quantized for node in mg.inputs]
    return values, [number.encode(value) for number, value in zip(numbers, values, strict=True)]


def test_reference_is_the_fake_quantized_model():
    """Sums of scalars are exact; of blocks, a sum may fall to the other side of a tie."""
    mg = side_by_side(list(PRODUCTS))
    values, codes = values_of(mg, 200)
    expected = IntegerReference(mg)(codes)
    with torch.no_grad():
        outputs = mg.copy().double()(*(value.double() for value in values))
    for position, (node, output) in enumerate(zip(output_nodes(mg), outputs, strict=True)):
        decoded = spec(node).quantized.decode(expected[node.name]).reshape(output.shape)
        wrong = int((decoded != output).sum())
        name = list(PRODUCTS)[position % len(PRODUCTS)]
        blocks = "block" in name or "mx" in name.split(" to ")[0]
        assert wrong <= (output.numel() // 100 if blocks else 0), f"{name}: {wrong} differ"


def simulate(project, samples, *values):
    """Check bits and cycles without pressure, and bits under it."""
    given = {} if values else {"samples": samples}
    for stall in (0.0, 0.35):
        report = exact(project, *values, stall=stall, seed=3, **given)
        if not stall:
            assert report.interval_cycles == report.predicted_interval_cycles
            assert report.latency_cycles == report.predicted_latency_cycles


@pytest.mark.parametrize(
    ("names", "parallelism"),
    [
        pytest.param(SHORT, 2, id="short"),
        pytest.param(tuple(PRODUCTS), 2, id="all", marks=FULL),
        pytest.param(tuple(PRODUCTS), 1, id="one lane", marks=FULL),
    ],
)
def test_products_in_hardware(names, parallelism, tmp_path):
    project = mase_hw.emit_verilog(
        side_by_side(names), output=tmp_path / "d", parallelism=parallelism
    )
    simulate(project, 20)
    values, _ = values_of(side_by_side(names), 20)
    exact(project, values, stall=0.3)


EDGES = {
    "fixed": {"name": "fixed", "width": 7, "frac_width": 3},
    "ufixed": {"name": "fixed", "width": 5, "frac_width": 1, "signed": False},
    "e5m2": {"name": "fp8_e5m2"},
    "wide float": {"name": "minifloat_denorm", "width": 14, "exponent_width": 6},
    "log": {"name": "log", "width": 6},
    "ternary": {"name": "ternary", "scale": 2.0},
    "binary": {"name": "binary"},
    "residual": {"name": "binary_residual", "levels": 3, "scale": 4.0},
    "mxint": {"name": "mxint", "width": 6, "block_size": 4},
    "block_fp": {"name": "block_fp", "width": 4, "exponent_width": 3, "block_size": 2},
    "mxfp8": {"name": "mxfp8", "block_size": 4, "element_format": "e5m2"},
    "mxfp4": {"name": "mxfp4", "block_size": 2, "exponent_width": 4},
    "block_minifloat": {"name": "block_minifloat", "block_size": 6, "exponent_bias_width": 3},
    "block_log": {"name": "block_log", "block_size": 4},
    "nvfp4": {"name": "nvfp4", "block_size": 4},
}
# Hardware has a multiple of a power of two for the real scale of a tensor.
IN_HARDWARE = {
    **EDGES, "nvfp4 of a tensor": {"name": "nvfp4", "block_size": 4, "tensor_scale": 0.37},
}  # fmt: skip
FEW = ("fixed", "log", "binary", "block_minifloat")
FINE = ("fixed", "mxint", "nvfp4 of a tensor")


@pytest.mark.parametrize("name", EDGES)
def test_a_cast_rounds_the_value_once(name):
    """The reference on codes is the format's own rounding of the reals."""
    given = make_format(EDGES[name])
    generator = torch.Generator().manual_seed(4)
    sizes = torch.randint(-120, 121, (90, 1), generator=generator)
    codes = given.encode(torch.randn(90, 12, generator=generator).double() * 2.0**sizes)
    for result in map(make_format, EDGES.values()):
        found = result.from_scaled(*given.significands(codes))
        assert torch.equal(result.decode(found), result.round_values(given.decode(codes))), result


@pytest.mark.parametrize("pair", [("fixed", "nvfp4"), ("nvfp4", "fixed")], ids=" to ".join)
def test_a_real_scale_of_a_tensor_is_close(pair):
    """Only next to a tie a multiplier of 24 bits may round another way."""
    numbers = {"fixed": EDGES["fixed"], "nvfp4": IN_HARDWARE["nvfp4 of a tensor"]}
    given, result = (make_format(numbers[name]) for name in pair)
    values = torch.randn(400, 12, generator=torch.Generator().manual_seed(5))
    codes = given.encode(values)
    found = result.decode(cast_reference(given, result)(codes))
    wrong = int((found != result.round_values(given.decode(codes))).sum())
    assert wrong <= codes.numel() // 1000


def test_too_wide_a_significand_for_a_fine_scale_is_refused():
    operators()
    graph = trace(Casts().eval(), (torch.randn(1, 8),))
    entry = {
        "name": "fixed",
        "data_in_width": 30,
        "data_in_frac_width": 28,
        "data_out_name": "nvfp4",
    }
    config = {"by": "name", "cast": {"config": {**entry, "data_out_tensor_scale": 0.3}}}
    found = preflight(quantize(graph, config))
    assert [item.reason for item in found] == [
        "values of fixed<30,28> take 54 bits beside its scale; nvfp4<4,16> is encoded from 46"
        " at most"
    ]


class Casts(nn.Module):
    """Every input in another format."""

    def forward(self, *inputs):
        return tuple(torch.ops.mase.cast(value) for value in inputs)


@pytest.mark.first(1)
@pytest.mark.parametrize(
    "names",
    [
        pytest.param(FEW, id="few"),
        pytest.param(FINE, id="fine"),
        pytest.param(tuple(IN_HARDWARE), id="all", marks=FULL),
    ],
)
def test_casts_between_any_two_formats(names, tmp_path):
    # Defines the torch operators that passes insert.
    operators()
    pairs = list(permutations(names, 2))
    graph = trace(Casts().eval(), tuple(torch.randn(1, 2, 7).abs() for _ in pairs))
    nodes = [node.name for node in graph.nodes if node.op == "call_function"]
    config = {"by": "name"}
    for node, pair in zip(nodes, pairs, strict=True):
        operands = zip(("data_in", "data_out"), pair, strict=True)
        entry = {
            f"{word}_{key}": item
            for word, end in operands
            for key, item in IN_HARDWARE[end].items()
        }
        config[node] = {"config": {"name": entry.pop("data_in_name"), **entry}}
    project = mase_hw.emit_verilog(quantize(graph, config), output=tmp_path / "d", parallelism=2)
    simulate(project, 30)


MIXED = {
    "digits-mlp": (
        DigitsMLP(),
        (64,),
        [
            {
                "name": "mxint", "data_in_block_size": 16, "weight_width": 4,
                "weight_block_size": 16, "bias_width": 8, "bias_block_size": 16,
            },
            {"name": "fp8_e4m3", "weight_name": "log", "weight_width": 5, **BIAS},
            {
                "name": "fixed", "data_in_width": 8, "weight_name": "binary_scaling",
                "weight_scale": 0.125, **BIAS,
            },
        ],
    ),
    "mnist-cnn": (
        MnistCNN(),
        (1, 28, 28),
        [
            {"name": "fixed", "data_in_width": 8},
            {"name": "mxint", "data_in_width": 8, "data_in_block_size": 16},
            {"name": "mxint", "data_in_width": 4, "data_in_block_size": 16},
            {"name": "fixed", "data_in_width": 8},
            {"name": "binary_scaling", "data_in_scale": 0.5, "weight_scale": 0.25, **BIAS},
            {"name": "fp6_e3m2", "weight_name": "log", "weight_width": 5, **BIAS},
        ],
    ),
}  # fmt: skip


def layered(model, shape, entries):
    """Return a quantised model whose n-th layer with weights has the n-th entry."""
    torch.manual_seed(0)
    traced = trace(model.build().eval(), (torch.randn(4, *shape),))
    mg = canonicalize(traced)
    calls = [node for node in mg.nodes if node.op == "call_function"]
    layers = [node.name for node in calls if "weight" in mg.call(node).constants]
    config = {"by": "name", "default": {"config": {"name": "fixed", "data_in_width": 8}}}
    for name, entry in zip(layers, entries, strict=True):
        config[name] = {"config": entry}
    # A normalisation behind weights of a few values stays, which only the formats say.
    return quantize(traced, config)


@pytest.mark.full
@pytest.mark.parametrize("name", ["digits-mlp", pytest.param("mnist-cnn", marks=FULL)])
def test_each_layer_in_its_own_format(name, tmp_path):
    model, shape, entries = MIXED[name]
    mg = layered(model, shape, entries)
    calls = [mg.call(node) for node in mg.nodes if node.op == "call_function"]
    specs = [spec for call in calls for spec in call.operands.values()]
    assert len({type(spec.format) for spec in specs}) > 3
    project = mase_hw.emit_verilog(mg, output=tmp_path / "d", parallelism=4)
    values = torch.randn(20, *shape, generator=torch.Generator().manual_seed(6))
    simulate(project, 20, values)
