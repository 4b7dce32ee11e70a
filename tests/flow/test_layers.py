"""Models that are built of `mase_hw.nn`: captured with their formats, emitted, simulated."""

from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

import mase_hw
import mase_hw.nn as qnn
from mase_hw.emit.flow import canonicalize, quantize
from mase_hw.emit.project import Project, load_reference
from mase_hw.errors import SimulationError
from mase_hw.graph import common, metadata
from mase_hw.passes.formats.calibrate import calibrate_analysis_pass
from tests.engines import both, exact
from tests.flow.perceptrons import JET_TAGGER, assert_bit_exact, quantized

FLOATS = {
    f"{operand}_{field}": value
    for operand in ("data_in", "weight", "bias")
    for field, value in (("width", 6), ("exponent_width", 3))
}
BLOCKS = {
    f"{operand}_{field}": value
    for operand in ("data_in", "weight", "bias")
    for field, value in (("width", 6), ("block_size", 4))
}
TERNARY = {"data_in_scale": 0.5, "weight_scale": 0.25, "bias_name": "fixed", "bias_width": 8}
# Blocks are formed before a ReLU of the emitted graph, and behind it in the module.
MODELS = {
    "Integer": ({"data_in_width": 8, "weight_width": 6, "bias_width": 8}, nn.ReLU()),
    "MXInt": (BLOCKS, nn.Identity()),
    "MinifloatIEEE": (FLOATS, nn.ReLU()),
    "Ternary": (TERNARY, nn.ReLU()),
}


def model_of(name, seed=0):
    config, between = MODELS[name]
    layer = getattr(qnn, f"Linear{name}")
    torch.manual_seed(seed)
    model = nn.Sequential(layer(8, 12, config=config), between, layer(12, 4, config=config))
    x = torch.randn(24, 8) * 3
    model(x)
    return model.eval(), x


@pytest.mark.first(1)
@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_layers_is_emitted_as_it_computes(name, tmp_path):
    model, x = model_of(name)
    mg = mase_hw.trace(model, x)
    assert mg.batched
    assert mg.is_quantized
    with torch.no_grad():
        assert torch.equal(mg(x), model(x))
    project = mase_hw.emit_verilog(mg, output=tmp_path / "out", parallelism=4)
    layers = [node for node in project.mg.nodes if common(node).operator == "linear"]
    for node, module in zip(layers, (model[0], model[2]), strict=True):
        operands = common(node).operands
        assert operands["data_in_0"].format == module.data_in_format
        assert operands["weight"].format == module.weight_format
        assert operands["bias"].format == module.bias_format
    exact(project, x)
    # What leaves the model is the only thing that it does not round itself.
    (output,) = project.mg.outputs
    result = common(output).results["data_out_0"].format
    with torch.no_grad():
        assert torch.equal(project.mg(x), result.round_values(model(x)))


def test_layers_keep_their_formats_in_a_file_and_in_training(tmp_path):
    model, x = model_of("Integer")
    mg = mase_hw.trace(model, x)
    again = mase_hw.MaseGraph.load(mg.save(tmp_path / "x.mase"))
    with torch.no_grad():
        assert torch.equal(again(x), model(x))
    loss = [item(x).square().mean() for item in (again.train(), model)]
    assert torch.equal(*loss)
    for item in loss:
        item.backward()
    assert torch.equal(dict(again.named_parameters())["0.weight"].grad, model[0].weight.grad)


def test_what_layers_leave_open_is_the_configurations():
    torch.manual_seed(0)
    layer = qnn.LinearInteger(6, 3, config={"data_in_width": 6, "weight_width": 4})
    model = nn.Sequential(nn.Linear(6, 6), nn.GELU(), layer).eval()
    x = torch.randn(16, 6)
    mg = mase_hw.trace(model, x)
    default = {"name": "fixed", "data_in_width": 12, "weight_width": 10, "bias_width": 9}
    found = quantize(mg, {"default": {"config": default}})
    widths = {
        node.name: [spec.format.width for spec in common(node).operands.values()]
        for node in found.nodes
        if common(node).operator in ("linear", "gelu")
    }
    assert widths == {"linear_0": [12, 10, 9], "gelu_1": [12], "linearinteger_2": [6, 4, 9]}
    assert common(found.outputs[0]).results["data_out_0"].format.width == 12
    named = {"by": "name", "linearinteger_2": {"config": {**default, "data_in_width": 5}}}
    operands = common(quantize(mg, named).node("linearinteger_2")).operands
    assert [spec.format.width for spec in operands.values()] == [5, 10, 9]


def test_calibration_resolves_layers_as_quantization_places_them():
    model, x = model_of("Integer")
    mg = mase_hw.trace(model, x)
    _, info = calibrate_analysis_pass(canonicalize(mg), {"data": [x]})
    left, right = quantize(mg, info["config"]), quantize(mg, data=[x])
    for one, other in zip(left.nodes, right.nodes, strict=True):
        assert common(one) == common(other)


def test_normalisation_stays_behind_a_layer_with_weights_of_its_own():
    layer = qnn.Conv2dInteger(2, 3, 3, config={"data_in_width": 8, "weight_width": 4})
    model = nn.Sequential(layer, nn.BatchNorm2d(3)).eval()
    model[1].running_var.uniform_(0.5, 2.0)
    mg = mase_hw.trace(model, torch.randn(2, 2, 5, 5))
    found = canonicalize(mg)
    assert [common(node).operator for node in found.nodes if node.op == "call_function"] == [
        "conv2d",
        "batch_norm",
    ]


class Named(nn.Module):
    """A layer that a line of one's own calls."""

    def __init__(self):
        super().__init__()
        self.layer = qnn.LinearInteger(4, 2)

    def forward(self, x):
        return self.layer(x)


def test_the_source_of_a_layer_is_the_line_that_calls_it():
    mg = mase_hw.trace(Named().eval(), torch.randn(2, 4))
    assert metadata(mg.node("layer")).source.code == "return self.layer(x)"


OUTPUTS = JET_TAGGER[-1]
STALL = 0.3


def emit(folder: Path, parallelism: int) -> Project:
    graph = quantized(*JET_TAGGER)
    return mase_hw.emit_verilog(graph, output=folder, parallelism=parallelism)


def bound(parallelism: int) -> int:
    return max(-(-i // parallelism) * -(-o // parallelism) for i, o in pairwise(JET_TAGGER))


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return emit(tmp_path_factory.mktemp("jet") / "p4", 4)


@pytest.mark.parametrize(("engine", "count"), [("native", 2000), ("cocotb", 60)])
def test_bit_exact_under_random_stalls(project, engine, count):
    report = mase_hw.simulate(project, samples=count, engine=engine, stall=STALL, seed=2)
    assert_bit_exact(report, count * OUTPUTS)


@both
def test_cycles_are_the_bound_and_the_prediction(project, engine):
    report = mase_hw.simulate(project, samples=30, engine=engine)
    assert_bit_exact(report, 30 * OUTPUTS)
    assert report.interval_cycles == report.predicted_interval_cycles == bound(4) == 128
    assert report.latency_cycles == report.predicted_latency_cycles


@pytest.mark.full
@pytest.mark.parametrize("parallelism", [1, 2, 4, 8, 16])
def test_every_parallelism(parallelism, tmp_path):
    emitted = emit(tmp_path / "out", parallelism)
    for engine, count in (("native", 20_000), ("cocotb", 200)):
        report = mase_hw.simulate(emitted, samples=count, engine=engine, stall=STALL, seed=1)
        assert_bit_exact(report, count * OUTPUTS)
        free = mase_hw.simulate(emitted, samples=50, engine=engine)
        assert free.interval_cycles == free.predicted_interval_cycles == bound(parallelism)
        assert free.latency_cycles == free.predicted_latency_cycles


def test_the_fake_quantized_model_is_the_decoded_reference(project):
    (entering,), (leaving,) = project.design.inputs, project.design.outputs
    generator = torch.Generator().manual_seed(4)
    codes = entering.spec.quantized.random_codes((5000, *entering.spec.shape), generator)
    expected = load_reference(project.folder)([codes])[leaving.node]
    model = project.mg.copy().double()
    with torch.no_grad():
        found = model(entering.spec.quantized.decode(codes).reshape(5000, -1))
    decoded = leaving.spec.quantized.decode(expected).reshape(5000, OUTPUTS)
    assert torch.equal(found, decoded)
    assert decoded.unique().numel() > 20


SIZE, STEPS = 3, 4


class OneNumber(nn.Module):
    """A number an example, as a step of diffusion, in and out."""

    def __init__(self):
        super().__init__()
        self.layer, self.step = nn.Linear(SIZE, 2), nn.Linear(1, 2)

    def forward(self, x, t):
        return (self.layer(x) + self.step(t[:, None])).sum(-1)


def layer(kind, **options):
    torch.manual_seed(0)
    return kind(SIZE, 2, **options).eval()


def states(count, layers):
    return tuple(torch.randn(layers, 6, 2) for _ in range(count))


TIME = torch.randn(STEPS, 6, SIZE, generator=torch.Generator().manual_seed(0))
# Model, inputs, and whether layers run on the hardware of one.
CASES = {
    "one number": (OneNumber, (torch.randn(6, SIZE), torch.rand(6)), False),
    "LSTM": (lambda: layer(nn.LSTM), (TIME,), False),
    "GRU of two layers": (lambda: layer(nn.GRU, num_layers=2), (TIME,), True),
    "two directions": (lambda: layer(nn.LSTM, bidirectional=True), (TIME,), False),
    "states": (
        lambda: layer(nn.LSTM, num_layers=2, batch_first=True),
        (TIME.transpose(0, 1), states(2, 2)),
        True,
    ),
    "a state, time first": (lambda: layer(nn.GRU), (TIME, *states(1, 1)), True),
}


@pytest.mark.first(1)
@pytest.mark.parametrize("name", CASES)
def test_the_callers_own_inputs_are_simulated(name, tmp_path):
    build, inputs, reuse = CASES[name]
    model = build()
    project = mase_hw.emit_verilog(model, inputs, output=tmp_path / "p", parallelism=2, reuse=reuse)
    report = exact(project, tuple(tree_leaves(inputs)))
    assert report.agreement is not None
    assert all(item.sqnr_db > 15 for item in report.agreement.outputs.values())
    expected = tree_leaves(model(*inputs))
    found = list(report.values.values())
    assert [item.shape for item in found] == [item.shape for item in expected]
    for left, right in zip(found, expected, strict=True):
        assert (left - right).abs().max() < 0.2


def test_another_shape_is_refused_with_the_dimension_of_the_batch(tmp_path):
    project = mase_hw.emit_verilog(layer(nn.GRU), TIME, output=tmp_path / "p")
    with pytest.raises(SimulationError, match=r"expected \(4, N, 3\) for N inferences"):
        mase_hw.simulate(project, TIME[:3])
