"""Designs that would deadlock are refused, and no others: what is refused hangs in simulation."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

import mase_hw
from mase_hw.emit import flow
from mase_hw.emit.flow import to_hardware
from mase_hw.errors import ConfigError, EmissionError, SimulationError
from mase_hw.graph import trace
from mase_hw.graph.reference import spec
from mase_hw.passes.hardware.progress import verify_progress_analysis_pass
from tests.modules import Layers


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(12, 12)

    def forward(self, x):
        return self.a(x) + x


def nested():
    def function(m, x):
        y = m.a(x)
        z = torch.relu(m.b(y) + y)
        return m.c(z) * z + x

    return Layers(function, a=nn.Linear(8, 8), b=nn.Linear(8, 8), c=nn.Linear(8, 8))


def shortcut():
    """Return a model whose short branch has a window and a sum of its own."""
    wide, short = nn.Conv2d(2, 4, 3, padding=1, stride=2), nn.Conv2d(2, 4, 1, stride=2)
    return Layers(lambda m, x: m.a(torch.relu(x)) + m.b(x), a=wide, b=short)


def pooled():
    first, second = (nn.Conv2d(2, 2, 3, padding=1) for _ in range(2))
    return Layers(lambda m, x: m.b(m.a(x)) + torch.max_pool2d(x, 3, 1, 1), a=first, b=second)


def centred():
    """Return a model in which a reduction reads all of what waits for it."""
    return Layers(lambda m, x: torch.relu(x) - x.mean(-1, keepdim=True))


def layers(**fields):
    return {"by": "type", "default": {"config": fields}}


FIXED = layers(name="fixed", data_in_width=8, weight_width=8, bias_width=8)
BLOCKS = {f"{name}_block_size": 4 for name in ("data_in", "weight", "bias")}
MIXED = {
    "by": "type",
    "default": {"config": {"name": "fixed", "data_in_width": 8}},
    "linear": {
        "config": {
            "name": "fixed", "data_in_width": 8, "weight_name": "scaled_integer",
            "weight_width": 6, "bias_width": 8,
        }
    },
}  # fmt: skip
CASES = {
    "residual": (Residual, (4, 12), FIXED),
    "nested": (nested, (4, 8), FIXED),
    "shortcut": (shortcut, (1, 2, 6, 6), FIXED),
    "pooled": (pooled, (1, 2, 5, 5), FIXED),
    "centred": (centred, (4, 6), FIXED),
    "residual mxint": (Residual, (4, 12), layers(name="mxint", **BLOCKS)),
    "nested mxint": (nested, (4, 8), layers(name="mxint", **BLOCKS)),
    "residual minifloat": (Residual, (4, 12), layers(name="fp8_e4m3")),
    "shortcut minifloat": (shortcut, (1, 2, 6, 6), layers(name="fp8_e4m3")),
    "residual scaled": (Residual, (4, 12), MIXED),
}
cases = pytest.mark.parametrize("model", list(CASES))
few = pytest.mark.parametrize(
    "model",
    [
        "residual",
        "centred",
        *(
            pytest.param(f"residual {name}", marks=pytest.mark.full)
            for name in ("mxint", "minifloat", "scaled")
        ),
    ],
)


@pytest.fixture(scope="module")
def quantized():
    """A quantised graph of each model."""
    torch.manual_seed(0)
    return {
        name: flow.quantize(trace(model().eval(), (torch.randn(shape),), name="net"), config)
        for name, (model, shape, config) in CASES.items()
    }


def computed(mg):
    graph = flow.to_hardware(mg)
    return {
        node.name: node.args[1]
        for node in graph.nodes
        if node.op == "call_function" and "fifo" in str(node.target)
    }


def refused(mg, depths):
    try:
        flow.to_hardware(mg, queues=depths)
    except EmissionError:
        return True
    return False


def least(mg, name):
    """Return the least depth of a queue that is not refused, the others as computed."""
    low, high = 0, computed(mg)[name]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if refused(mg, {name: middle}) else (low, middle)
    return high


def hangs(mg, depths, folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flow, "verify_progress_analysis_pass", lambda mg, args: (mg, {}))
        project = mase_hw.emit_verilog(mg, output=folder, queues=depths)
    try:
        report = mase_hw.simulate(project, samples=6, stall=0.5)
    except SimulationError as error:
        assert "the design hangs" in str(error)
        return True
    assert report.bit_exact
    return False


def test_the_error_names_the_loop_and_the_depth(quantized, tmp_path):
    output = tmp_path / "net"
    with pytest.raises(EmissionError) as error:
        mase_hw.emit_verilog(quantized["residual"], output=output, queues={"x_fifo": 4})
    message = str(error.value)
    assert "the design would deadlock at add (" in message
    assert "return self.a(x) + x" in message
    assert "add waits for a, a waits for x, x waits for x_fifo, x_fifo waits for add" in message
    assert "x_fifo holds 4 and needs 11 or more" in message
    assert not output.exists()


@pytest.mark.parametrize(
    ("queues", "message"),
    [
        ({"y_fifo": 4}, "no queue is called 'y_fifo'; did you mean x_fifo"),
        ({"x_fifo": 0}, "x_fifo is 0; allowed: a number of beats from 1"),
        ({"x_fifo": "4"}, "x_fifo is '4'; allowed"),
        (4, "queues is 4; allowed: a table"),
    ],
)
def test_depths_that_are_none(quantized, queues, message):
    with pytest.raises(ConfigError, match=message):
        flow.to_hardware(quantized["residual"], queues=queues)


def test_a_chain_needs_no_order(quantized):
    mg = flow.to_hardware(flow.quantize(trace(nn.Linear(4, 4).eval(), (torch.ones(1, 4),))))
    assert verify_progress_analysis_pass(mg)[1]["events"] == 0


@pytest.mark.parametrize("tokens", [1, 2, 3])
def test_operands_that_a_product_takes_apart_do_not_wait_for_each_other(tokens):
    attention = nn.TransformerEncoderLayer(4, 2, 16, batch_first=True).eval()
    mg = flow.quantize(trace(attention, torch.randn(3, tokens, 4)))
    assert verify_progress_analysis_pass(flow.to_hardware(mg))[1]["events"]


@cases
def test_one_beat_more_than_the_least_passes_too(quantized, model):
    mg = quantized[model]
    for name, depth in computed(mg).items():
        bound = least(mg, name)
        assert 1 <= bound <= depth
        assert not refused(mg, {name: bound + 1})
        assert bound == 1 or refused(mg, {name: 1})


@pytest.mark.first(1)
@few
def test_what_is_refused_hangs(quantized, model, tmp_path):
    mg = quantized[model]
    for name in computed(mg):
        bound = least(mg, name)
        assert not hangs(mg, {name: bound}, tmp_path / f"{name}-enough")
        if bound > 1:
            assert hangs(mg, {name: bound - 1}, tmp_path / f"{name}-short")


@pytest.mark.full
@given(data=st.data(), model=st.sampled_from(list(CASES)))
@settings(max_examples=16, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_depths_around_the_least(quantized, tmp_path_factory, data, model):
    mg = quantized[model]
    bounds = {name: least(mg, name) for name in computed(mg)}
    depths = {
        name: max(1, bound + data.draw(st.integers(-1, 1), label=name))
        for name, bound in bounds.items()
    }
    assert hangs(mg, depths, tmp_path_factory.mktemp("net") / "net") == refused(mg, depths)


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(3, 2, 2),
        nn.Conv2d(3, 3, 2, groups=3),
        nn.ConvTranspose2d(3, 2, 2),
        nn.MaxPool2d(2),
        nn.AvgPool2d(2),
    ],
)
@pytest.mark.parametrize("parallelism", [1, 2])
def test_several_images_of_one_inference_are_all_waited_for(layer, parallelism):
    """Rows that are mixed fix the batch: all images are one inference."""

    def mixed(m, x):
        y = m.layer(x * 2)
        return y.reshape(2, -1).transpose(0, 1), y

    model = Layers(mixed, layer=layer).eval()
    mg = mase_hw.quantize(mase_hw.trace(model, torch.randn(2, 3, 5, 4)))
    assert not mg.batched
    mg = to_hardware(mg, parallelism=parallelism)
    for node in mg.nodes:
        if node.op == "call_function":
            netlist = mg.netlist(node)
            assert netlist.port(netlist.outputs["data_out_0"]).beats == spec(node).beats
