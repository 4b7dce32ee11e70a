"""Activation pruning: the asked share of zeros, in the graph and on its hardware."""

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.flow import canonicalize
from mase_hw.graph import trace
from mase_hw.passes.compression.prune import report_sparsity_analysis_pass
from mase_hw.passes.compression.prune_activations import prune_activations_transform_pass


def graph():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3)
    )
    return canonicalize(trace(model, torch.randn(64, 10), name="tiny"))


def shares(mg, inserted, data):
    _, info = report_sparsity_analysis_pass(mg, {"data": [data]})
    return [info["activations"][name] for name in inserted]


@pytest.mark.parametrize("scope", ["local", "global"])
def test_the_smallest_magnitudes_leave(scope):
    before, data = graph(), torch.randn(500, 10)
    arguments = {"sparsity": 0.7, "scope": scope, "data": [data]}
    mg, info = prune_activations_transform_pass(before, arguments)
    assert info["inserted"] == ["tanh_1_shrink", "relu_3_shrink"]
    found = shares(mg, info["inserted"], data)
    if scope == "local":
        assert found == [pytest.approx(0.7, abs=0.001)] * 2
    else:
        assert (16 * found[0] + 8 * found[1]) / 24 == pytest.approx(0.7, abs=0.1)
        assert found[0] < 0.7 < found[1]
    # What stays is as it was: larger than all that left.
    with torch.no_grad():
        weight, bias = list(before.model.parameters())[:2]
        hidden = torch.tanh(nn.functional.linear(data, weight, bias)).flatten()
        threshold = next(node for node in mg.nodes if node.name == "tanh_1_shrink").args[1]
    assert float((hidden.abs() <= threshold).double().mean()) == pytest.approx(found[0])


def test_chance_takes_the_same_positions_every_time():
    data = torch.randn(50, 10)
    mg, info = prune_activations_transform_pass(graph(), {"sparsity": 0.5, "criterion": "random"})
    _, found = report_sparsity_analysis_pass(mg, {"data": [data]})
    assert found["activations"]["tanh_1_mask"] == 0.5
    other, _ = prune_activations_transform_pass(
        graph(), {"sparsity": 0.5, "criterion": "random", "seed": 1}
    )
    masks = [dict(item.model.named_buffers())["kept.tanh_1"] for item in (mg, other)]
    assert info["inserted"] == ["tanh_1_mask", "relu_3_mask"]
    assert not torch.equal(*masks)
    assert [int((mask == 0).sum()) for mask in masks] == [8, 8]


def test_zeros_that_a_layer_gives_by_itself_count():
    _, info = prune_activations_transform_pass(graph(), {"sparsity": 0.1, "nodes": ["relu_3"]})
    assert info["inserted"] == []


@pytest.mark.first(1)
@pytest.mark.parametrize("criterion", ["l1", "random"])
def test_the_hardware_has_the_same_zeros(criterion, tmp_path):
    mg, _ = prune_activations_transform_pass(graph(), {"sparsity": 0.6, "criterion": criterion})
    inputs = torch.randn(40, 10)
    project = mase_hw.emit_verilog(mg, output=tmp_path / "project")
    report = mase_hw.simulate(project, inputs)
    assert report.bit_exact
    (outputs,) = report.values.values()
    with torch.no_grad():
        distance = (outputs.reshape(40, 3) - mg.model(inputs)).abs().median()
    assert distance < 0.1
