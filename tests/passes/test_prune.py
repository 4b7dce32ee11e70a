"""Pruning: the right weights leave, and stay away through training, saving and quantisation."""

import pytest
import torch
from torch import nn

from mase_hw.emit.flow import canonicalize, quantize
from mase_hw.errors import ConfigError, DataError
from mase_hw.graph import MaseGraph, trace
from mase_hw.passes.compression.prune import (
    CRITERIA,
    prune_transform_pass,
    report_sparsity_analysis_pass,
)
from mase_hw.passes.compression.prune_activations import prune_activations_transform_pass
from mase_hw.training import Trainer


def graph():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 3))
    return trace(model, torch.randn(8, 10), name="tiny")


def weights(mg):
    return [item.detach() for item in mg.model.parameters() if item.dim() == 2]


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("scope", ["local", "global"])
def test_the_asked_share_leaves(criterion, scope):
    arguments = {"sparsity": 0.7, "criterion": criterion, "scope": scope}
    before = graph()
    mg, info = prune_transform_pass(before, arguments)
    assert info["sparsity"] == pytest.approx(0.7, abs=0.01)
    assert report_sparsity_analysis_pass(before)[1]["sparsity"] == 0
    if scope == "local":
        assert all(share == pytest.approx(0.7, abs=0.02) for share in info["nodes"].values())
    if (criterion, scope) in (("l1", "global"), ("l2", "global")):
        old, new = (torch.cat([w.flatten() for w in weights(item)]) for item in (before, mg))
        assert old[new == 0].abs().max() <= old[new != 0].abs().min()


def test_scores_are_those_of_their_definitions():
    """One layer, whose gradients and inputs are written down."""
    torch.manual_seed(0)
    layer = nn.Linear(6, 4, bias=False)
    inputs, labels = torch.randn(2, 5, 6) * torch.arange(1, 7), torch.randn(2, 5, 4)
    mg = trace(layer, inputs[0], name="one")
    rate, weight = 1e-2, layer.weight.detach().double()

    def gradient(w, batch):
        x, y = inputs[batch].double(), labels[batch].double()
        return 2 * (x @ w.T - y).T @ x

    both = [gradient(weight, batch) for batch in (0, 1)]
    moved = weight - rate * both[0]
    expected = {
        "l2": weight.square(),
        "snip": ((both[0] + both[1]) * weight).abs(),
        "taylor": sum((item * weight).square() for item in both),
        "movement": -both[0] * weight - gradient(moved, 1) * moved,
    }
    norms = inputs.double().flatten(0, 1).norm(dim=0)

    def loss(graph, batch):
        return (graph(inputs[batch]) - labels[batch]).square().sum()

    for criterion, scores in expected.items():
        for count in range(1, 24):
            arguments = {"sparsity": count / 24, "criterion": criterion, "data": (0, 1)}
            pruned, _ = prune_transform_pass(mg, arguments | {"loss": loss})
            kept = weights(pruned)[0] != 0
            assert int(kept.sum()) == 24 - count
            assert scores[kept].min() > scores[~kept].max(), criterion
    pruned, _ = prune_transform_pass(
        mg, {"sparsity": 0.5, "criterion": "wanda", "data": list(inputs)}
    )
    for row, scores in zip(weights(pruned)[0], weight.abs() * norms, strict=True):
        assert int((row == 0).sum()) == 3
        assert scores[row != 0].min() > scores[row == 0].max()


@pytest.mark.parametrize("criterion", CRITERIA)
def test_every_criterion_prunes_grouped_convolutions(criterion):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(4, 8, 3, groups=2), nn.Flatten(), nn.Linear(128, 3))
    mg = trace(model, torch.randn(2, 4, 6, 6))
    _, info = prune_transform_pass(mg, {"sparsity": 0.5, "criterion": criterion})
    assert info["sparsity"] == pytest.approx(0.5, abs=0.02)


def test_n_of_m_keeps_the_best_of_every_group():
    before = graph()
    mg, _ = prune_transform_pass(before, {"n": 2, "m": 4})
    old, new = weights(before)[1].reshape(-1, 4), weights(mg)[1].reshape(-1, 4)
    assert torch.equal((new != 0).sum(dim=1), torch.full((12,), 2))
    expected = old.abs().topk(2, dim=1).indices.sort(dim=1).values
    assert torch.equal(new.nonzero()[:, 1].reshape(-1, 2), expected)


def test_masks_survive_training_saving_and_quantisation(tmp_path):
    mg, _ = prune_transform_pass(graph(), {"sparsity": 0.5})
    zeros = [item == 0 for item in weights(mg)]
    inputs, labels = torch.randn(60, 10), torch.arange(60) % 3
    before = [item.clone() for item in weights(mg)]
    Trainer(epochs=3, learning_rate=1e-2).fit(mg, inputs, labels)
    assert all((new != old).any() for new, old in zip(weights(mg), before, strict=True))
    quantized = quantize(MaseGraph.load(mg.save(tmp_path / "tiny.mase")))
    Trainer(epochs=3, learning_rate=1e-2).fit(quantized, inputs, labels)
    for item, mask in zip(weights(quantized), zeros, strict=True):
        assert torch.equal(item == 0, mask)


def test_pruning_again_keeps_what_left():
    mg, _ = prune_transform_pass(graph(), {"sparsity": 0.3, "criterion": "random"})
    gone = [item == 0 for item in weights(mg)]
    more, info = prune_transform_pass(mg, {"sparsity": 0.6, "criterion": "random", "seed": 5})
    assert info["sparsity"] == pytest.approx(0.6, abs=0.02)
    assert all(
        bool((item[mask] == 0).all()) for item, mask in zip(weights(more), gone, strict=True)
    )


def activations(arguments):
    return prune_activations_transform_pass(canonicalize(graph()), arguments)


def parameters(arguments):
    return prune_transform_pass(graph(), arguments)


@pytest.mark.parametrize(
    ("prune", "arguments", "message"),
    [
        (parameters, {"sparsity": 1.0}, "sparsity is 1.0; allowed: from 0 to below 1"),
        (parameters, {"sparsity": -0.1}, "sparsity is -0.1"),
        (parameters, {}, "sparsity is None"),
        (parameters, {"sparsity": 0.5, "criterion": "l3"}, "criterion is 'l3'"),
        (parameters, {"sparsity": 0.5, "nodes": ["linear_9"]}, "no node 'linear_9'"),
        (parameters, {"n": 5, "m": 4}, "5 of 4"),
        (parameters, {"n": 2, "m": 4, "sparsity": 0.5}, "give it alone"),
        (activations, {"sparsity": 1.0}, "sparsity is 1.0; allowed: from 0 to below 1"),
        (activations, {}, "sparsity is None"),
        (activations, {"sparsity": 0.5, "nodes": ["rel_1"]}, "'rel_1'; did you mean relu_1"),
        (activations, {"sparsity": 0.5, "scope": "all"}, "scope is 'all'"),
        (activations, {"sparsity": 0.5, "data": []}, "empty"),
    ],
)
def test_bad_pruning_is_refused(prune, arguments, message):
    with pytest.raises((ConfigError, DataError), match=message):
        prune(arguments)


def test_the_natural_sparsity_of_activations_is_reported():
    mg = graph()
    batches = [torch.randn(50, 10), torch.randn(30, 10)]
    _, info = report_sparsity_analysis_pass(mg, {"data": batches})
    hidden = torch.cat([mg.model.get_parameter("0.weight") @ item.T for item in batches], dim=1)
    hidden = hidden + mg.model.get_parameter("0.bias")[:, None]
    expected = float((hidden <= 0).double().mean())
    assert info["activations"]["relu_1"] == pytest.approx(expected)
    assert 0.2 < expected < 0.8
    assert info["activations"]["linear_0"] == 0
    assert set(info["activations"]) == {mg.inputs[0].name, "linear_0", "relu_1", "linear_2"}
    with pytest.raises(DataError, match="empty"):
        report_sparsity_analysis_pass(mg, {"data": []})


def test_products_of_a_captured_graph_are_layers_too():
    """As in GPT-2, whose layers hold their weights the other way round."""
    from mase_hw.passes import insert_lora_adapter_transform_pass

    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.bias = nn.Parameter(torch.randn(6, 8)), nn.Parameter(torch.randn(8))
            self.last = nn.Linear(8, 3)

        def forward(self, x):
            return self.last(torch.relu(torch.addmm(self.bias, x, self.weight)))

    torch.manual_seed(0)
    model, x = Turned().eval(), torch.randn(5, 6)
    mg = trace(model, x)
    pruned, info = prune_transform_pass(mg, {"sparsity": 0.5})
    assert list(info["nodes"].values()) == [0.5, 0.5]
    assert report_sparsity_analysis_pass(canonicalize(pruned))[1]["sparsity"] == 0.5
    _, info = insert_lora_adapter_transform_pass(mg, {"rank": 2})
    assert len(info["nodes"]) == 2
    assert torch.allclose(insert_lora_adapter_transform_pass(mg, {"rank": 2})[0](x), model(x))
