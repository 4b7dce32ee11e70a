"""Layers that are alike on the hardware of one: exact, in the predicted cycles, refused by name."""

import numpy as np
import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.flow import to_hardware
from mase_hw.errors import ConfigError, EmissionError, ParallelismError
from mase_hw.graph.loops import loops_of
from mase_hw.graph.physical import physical
from mase_hw.graph.reference import IntegerReference
from mase_hw.hardware.estimate import estimate_nodes
from mase_hw.timing.prediction import predict
from tests.engines import as_predicted, exact

LAYERS = 3


class Block(nn.Module):
    """Two linear layers and a residual."""

    def __init__(self, size, hidden):
        super().__init__()
        self.up, self.down = nn.Linear(size, hidden), nn.Linear(hidden, size)

    def forward(self, x):
        return x + self.down(self.up(x).relu())


def chain(hidden=(16, 16, 16)):
    """A layer before, blocks, and one behind."""
    torch.manual_seed(0)
    blocks = [Block(8, size) for size in hidden]
    return nn.Sequential(nn.Linear(6, 8), *blocks, nn.Linear(8, 4)).eval()


def encoder(norm_first):
    """Two encoder layers between linear ones, with weights of norms that are not all one."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, norm_first=norm_first)
    layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    model = nn.Sequential(nn.Linear(4, 8), layers, nn.Linear(8, 3)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model


@pytest.fixture(scope="module")
def graph():
    return mase_hw.quantize(mase_hw.trace(chain(), torch.randn(16, 5, 6)), reuse=True)


def check(project, **options):
    report = exact(project, **options)
    return report


@pytest.mark.parametrize("parallelism", [2, pytest.param(1, marks=pytest.mark.full)])
def test_three_blocks_are_exact_in_the_predicted_cycles(graph, tmp_path, parallelism):
    project = mase_hw.emit_verilog(graph, output=tmp_path / "p", parallelism=parallelism)
    report = check(project, samples=8)
    assert report.as_predicted is True
    check(project, samples=6, stall=0.4)


def test_what_leaves_is_what_the_layers_compute_on_hardware_of_their_own(graph):
    alone = mase_hw.quantize(mase_hw.trace(chain(), torch.randn(16, 5, 6)))
    codes = torch.randint(-128, 128, (9, 1, 5, 6))
    shared, plain = IntegerReference(graph)([codes]), IntegerReference(alone)([codes])
    assert [value.shape for value in shared.values()] == [value.shape for value in plain.values()]
    (result,) = IntegerReference(graph)([codes]).values()
    assert result.unique().numel() > 8


@pytest.mark.parametrize("parallelism", [1, "auto"])
def test_the_hardware_of_the_layers_is_there_once(graph, parallelism):
    alone = to_hardware(
        mase_hw.quantize(mase_hw.trace(chain(), torch.randn(16, 5, 6))), parallelism=parallelism
    )
    shared = to_hardware(graph, parallelism=parallelism)
    (loop,), part = loops_of(shared), physical(shared)
    assert len(loop.layers) == LAYERS
    left = {node.name for node in part.nodes if node.op == "call_function"}
    every = {node.name for node in shared.nodes if node.op == "call_function"}
    assert left == every - {node.name for node in loop.others}
    layer = sum(part.netlist(part.node(node.name)).multipliers for node in loop.first)
    all_ = sum(part.netlist(node).multipliers for node in part.nodes if node.op == "call_function")
    assert 0 < layer < all_
    if parallelism == 1:
        once = estimate_nodes(shared).total
        assert once.dsp == all_ < estimate_nodes(alone).total.dsp


def test_memories_hold_the_weights_of_all_layers(graph):
    shared = to_hardware(graph, parallelism=2)
    (loop,), part = loops_of(shared), physical(shared)
    (nodes,) = (nodes for nodes in loop.places if nodes[0].name.endswith("_up"))
    source = part.netlist(part.node(nodes[0].name)).source("weight")
    words = [shared.netlist(node).source("weight").image.octets for node in nodes]
    assert np.array_equal(source.image.octets, np.concatenate(words))
    assert len({part.tobytes() for part in words}) == LAYERS


def test_layers_go_round_no_faster_than_activations_return(graph):
    """An inference takes the work of all layers, or what its activations wait for more."""
    for parallelism in (1, "auto"):
        found = predict(to_hardware(graph, parallelism=parallelism))
        assert found.interval_cycles >= max(found.work_cycles.values())
        assert found.latency_cycles > found.interval_cycles


def test_layers_that_take_one_beat_wait_for_no_other_beat():
    graph = mase_hw.quantize(mase_hw.trace(chain(), torch.randn(16, 6)), reuse=True)
    shared = to_hardware(graph, parallelism=8)
    assert {shared.call(node).result.beats for node in loops_of(shared)[0].layers[0]} == {1, 2}


def test_formats_are_the_same_in_all_layers(graph):
    (loop,) = loops_of(graph)
    weights = {
        place: {graph.call(node).operands["weight"].format for node in nodes}
        for place, nodes in enumerate(loop.places)
        if "weight" in graph.call(nodes[0]).operands
    }
    assert weights
    assert all(len(formats) == 1 for formats in weights.values())
    ranges = [node.meta["mase"].software.ranges["data_out_0"] for node in loop.states[0]]
    assert len(set(ranges)) == 1


@pytest.mark.full
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("parallelism", [1, "auto"])
def test_two_encoder_layers(tmp_path, norm_first, parallelism):
    traced = mase_hw.trace(encoder(norm_first), torch.randn(4, 6, 4))
    graph = mase_hw.quantize(traced, reuse=True)
    project = mase_hw.emit_verilog(graph, output=tmp_path / "p", parallelism=parallelism)
    assert check(project, samples=8).as_predicted is True
    check(project, samples=5, stall=0.4)


@pytest.mark.full
def test_blocks_with_a_scale_go_round(tmp_path):
    entry = {"name": "mxint", "data_in_width": 8, "weight_width": 8, "bias_width": 8}
    entry |= {f"{name}_block_size": 4 for name in ("data_in", "weight", "bias")}
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(LAYERS)]
    traced = mase_hw.trace(nn.Sequential(*layers).eval(), torch.randn(8, 8))
    graph = mase_hw.quantize(traced, {"by": "type", "default": {"config": entry}}, reuse=True)
    project = mase_hw.emit_verilog(graph, output=tmp_path / "p", parallelism=4)
    assert check(project, samples=8).as_predicted is True
    check(project, samples=6, stall=0.4)


def test_lanes_that_are_asked_of_one_layer_are_those_of_all(graph):
    name = loops_of(graph)[0].layers[1][0].name
    shared = to_hardware(graph, parallelism={"default": 1, name: {"data_out_0_dim_0": 4}})
    nodes = loops_of(shared)[0].twins[shared.node(name)]
    assert [shared.call(node).result.parallelism for node in nodes] == [(1, 4)] * LAYERS


def test_lanes_that_differ_between_layers_are_refused(graph):
    first, second = (layer[0].name for layer in loops_of(graph)[0].layers[:2])
    table = {"default": 1, first: {"data_out_0_dim_0": 4}, second: {"data_out_0_dim_0": 2}}
    with pytest.raises(ParallelismError, match=rf"{first} and {second}, which run on the same"):
        to_hardware(graph, parallelism=table)


def test_a_model_without_layers_that_are_alike_is_refused(tmp_path):
    inputs = torch.randn(16, 5, 6)
    with pytest.raises(
        EmissionError, match=r"sequential has no layers for reuse: none that follow"
    ):
        mase_hw.emit_verilog(chain((16, 12, 20)), inputs, output=tmp_path / "p", reuse=True)
    assert not (tmp_path / "p").exists()


class Masked(nn.Module):
    """Encoder layers that all read which tokens are padding."""

    def __init__(self):
        super().__init__()
        self.layers = encoder(norm_first=False)[1]

    def forward(self, x, padding):
        return self.layers(x, src_key_padding_mask=padding)


@pytest.mark.full
def test_layers_may_all_read_a_mask(tmp_path):
    inputs = torch.randn(4, 6, 8), torch.rand(4, 6) > 0.7
    inputs[1][:, 0] = False
    graph = mase_hw.quantize(mase_hw.trace(Masked().eval(), inputs), reuse=True)
    assert loops_of(graph)[0].takes
    project = mase_hw.emit_verilog(graph, output=tmp_path / "p", parallelism=2)
    assert check(project, inputs=inputs).as_predicted is True
    check(project, inputs=inputs, stall=0.4)


def test_what_is_read_by_all_layers_gets_its_formats_with_them(tmp_path):
    inputs = torch.randn(4, 6, 8), torch.zeros(4, 6, dtype=torch.bool)
    graph = mase_hw.quantize(mase_hw.trace(Masked().eval(), inputs))
    with pytest.raises(EmissionError, match=r"layers that all read .* give the captured model"):
        mase_hw.emit_verilog(graph, output=tmp_path / "p", reuse=True)


def test_a_stream_that_all_layers_take_beside_their_own_is_named():
    class Beside(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(Block(8, 16) for _ in range(3))

        def forward(self, x):
            first = x.sigmoid()
            for layer in self.layers:
                x = layer(x) * first
            return x

    with pytest.raises(EmissionError, match=r"3 follow each other and are alike, but all of them"):
        mase_hw.quantize(mase_hw.trace(Beside().eval(), torch.randn(4, 8)), reuse=True)


def test_a_quantized_graph_says_how_its_formats_become_alike(tmp_path):
    torch.manual_seed(0)
    model = chain()
    with torch.no_grad():
        model[2].up.weight *= 7
    alone = mase_hw.quantize(mase_hw.trace(model, torch.randn(16, 5, 6)))
    with pytest.raises(EmissionError, match=r"or give quantize reuse=True"):
        mase_hw.emit_verilog(alone, output=tmp_path / "p", reuse=True)


def test_a_result_from_between_layers_is_no_layer_for_reuse():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(Block(8, 16) for _ in range(2))

        def forward(self, x):
            first = self.layers[0](x)
            return self.layers[1](first), first

    with pytest.raises(EmissionError, match="has no layers for reuse"):
        mase_hw.quantize(mase_hw.trace(Two().eval(), torch.randn(4, 8)), reuse=True)


def test_targets_and_weights_outside_that_are_taken_several_times_are_refused(graph):
    with pytest.raises(ParallelismError, match="with reuse no target such as"):
        to_hardware(graph, parallelism={"target_interval": 100})
    with pytest.raises(ConfigError, match="each layer takes its weight 5 times an inference"):
        to_hardware(graph, memory="external")


def test_layers_with_weights_at_different_places_are_refused(graph):
    (loop,) = loops_of(graph)
    name = next(node.name for node in loop.layers[1] if node.name.endswith("_up"))
    with pytest.raises(ConfigError, match="run on the same hardware, and their constants lie at"):
        to_hardware(graph, memory={name: {"weight": "external"}})


@pytest.mark.parametrize(
    "port", [{"data_width": 32, "bytes_per_cycle": 1}, {"latency_cycles": 200, "outstanding": 2}]
)
def test_weights_of_all_layers_come_from_outside(port, tmp_path):
    """Some are bound by the port, some by how long activations go round."""
    graph = mase_hw.quantize(mase_hw.trace(chain(), torch.randn(16, 6)), reuse=True)
    memory = {"default": "external", **port}
    project = mase_hw.emit_verilog(graph, output=tmp_path / "p", parallelism=2, memory=memory)
    outside = project.design.external
    (up,) = (region for region in outside.regions if region.node.endswith("_up"))
    assert (up.words, up.rounds, up.repeats) == (LAYERS * 8 * 16 // 4, 1, 1)
    bound = project.design.interval_cycles == outside.cycles
    assert bound == ("bytes_per_cycle" in port)
    report = check(project, samples=40)
    assert report.as_predicted is True
    assert report.latency_cycles == report.predicted_latency_cycles
    check(project, samples=10, stall=0.4)
    assert mase_hw.simulate(project, samples=6, resets=6, stall=0.2).is_right


def test_biases_may_stay_on_the_chip(tmp_path):
    graph = mase_hw.quantize(mase_hw.trace(chain(), torch.randn(16, 6)), reuse=True)
    layers = [node for item in loops_of(graph) for layer in item.layers for node in layer]
    linear = [node.name for node in layers if node.name.endswith(("_up", "_down"))]
    memory = {name: {"weight": "external"} for name in linear}
    project = mase_hw.emit_verilog(graph, output=tmp_path / "p", parallelism=2, memory=memory)
    operands = {region.operand for region in project.design.external.regions}
    assert operands == {"weight"}
    assert len(project.design.external.regions) == 2
    assert exact(project, samples=30).as_predicted is True


class Mixer(nn.Module):
    """Mixes tokens, between transpositions, then channels."""

    def __init__(self, tokens=6, channels=8):
        super().__init__()
        self.norm, self.last = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.tokens, self.channels = nn.Linear(tokens, tokens), nn.Linear(channels, channels)

    def forward(self, x):
        x = x + self.tokens(self.norm(x).mT).mT.relu()
        return x + self.channels(self.last(x)).relu()


@pytest.mark.first(1)
@pytest.mark.parametrize("parallelism", [2, 3])
def test_blocks_that_transpose_meet_in_one_order(tmp_path, parallelism):
    torch.manual_seed(0)
    model = nn.Sequential(Mixer(), Mixer(), Mixer()).eval()
    project = mase_hw.emit_verilog(
        model, torch.randn(8, 6, 8), output=tmp_path / "p", parallelism=parallelism, reuse=True
    )
    as_predicted(project, samples=8)
