"""Pruning: the right weights leave, and stay away through training, saving and quantisation."""

import copy

import pytest
import torch
from torch import nn

from mase_hw.emit.flow import canonicalize, quantize
from mase_hw.errors import ConfigError, DataError
from mase_hw.graph import MaseGraph, trace
from mase_hw.passes.compression.prune import prune_transform_pass, report_sparsity_analysis_pass
from mase_hw.passes.compression.prune_activations import prune_activations_transform_pass
from mase_hw.training import Trainer
from tests.modules import Layers


def graph():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 3))
    return trace(model, torch.randn(8, 10), name="tiny")


def weights(mg):
    return [item.detach() for item in mg.model.parameters() if item.dim() == 2]


@pytest.mark.parametrize("criterion", ["l1", "random"])
@pytest.mark.parametrize("scope", ["local", "global"])
def test_the_asked_share_leaves(criterion, scope):
    arguments = {"sparsity": 0.7, "criterion": criterion, "scope": scope}
    before = graph()
    mg, info = prune_transform_pass(before, arguments)
    assert info["sparsity"] == pytest.approx(0.7, abs=0.01)
    assert report_sparsity_analysis_pass(before)[1]["sparsity"] == 0
    if scope == "local":
        assert all(share == pytest.approx(0.7, abs=0.02) for share in info["nodes"].values())
    if (criterion, scope) == ("l1", "global"):
        old, new = (torch.cat([w.flatten() for w in weights(item)]) for item in (before, mg))
        assert old[new == 0].abs().max() <= old[new != 0].abs().min()


def importance(criterion, model, batches):
    """Return the importance of the weights of a module, by its own gradients and inputs."""
    model = copy.deepcopy(model)
    layers = [layer for layer in model if isinstance(layer, nn.Linear)]
    if criterion == "wanda":
        inputs = torch.cat([x for x, _ in batches])
        norms = [inputs.norm(dim=0), model[:2](inputs).norm(dim=0)]
        return [layer.weight.abs() * norm for layer, norm in zip(layers, norms, strict=True)]
    total = [torch.zeros_like(layer.weight) for layer in layers]
    for inputs, labels in batches:
        model.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        with torch.no_grad():
            for term, layer in zip(total, layers, strict=True):
                product = layer.weight * layer.weight.grad
                term += product**2 if criterion == "taylor" else -product
                layer.weight -= 1e-2 * layer.weight.grad if criterion == "movement" else 0.0
    return [term.abs() if criterion == "snip" else term for term in total]


@pytest.mark.parametrize("criterion", ["wanda", "snip", "taylor", "movement"])
def test_the_least_important_weights_on_data_leave(criterion):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 3))
    batches = [(torch.randn(24, 10) * torch.arange(10), torch.arange(24) % 3) for _ in range(3)]
    mg = trace(model, batches[0][0], name="tiny")
    arguments = {"sparsity": 0.5, "criterion": criterion}
    pruned, info = prune_transform_pass(mg, {**arguments, "data": batches})
    assert info["sparsity"] == pytest.approx(0.5, abs=0.01)
    wanted = importance(criterion, model, batches)
    for old, new, scores in zip(weights(mg), weights(pruned), wanted, strict=True):
        assert torch.equal(new, old * (new != 0))
        rows = zip(scores, new, strict=True) if criterion == "wanda" else [(scores, new)]
        for row, left in rows:
            assert row[left == 0].max() <= row[left != 0].min()
    with pytest.raises(DataError, match=f"criterion {criterion} needs data"):
        prune_transform_pass(mg, arguments)


def test_inputs_of_convolutions_are_those_of_their_groups():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(4, 6, 3, groups=2), nn.ConvTranspose2d(6, 5, 2)).eval()
    x = torch.randn(9, 4, 6, 6) * torch.tensor([1.0, 10.0, 10.0, 1.0])[:, None, None]
    mg = trace(model, x)
    pruned, _ = prune_transform_pass(mg, {"sparsity": 0.5, "criterion": "wanda", "data": [x]})
    first, second = (item for item in pruned.model.parameters() if item.dim() == 4)
    shares = (first == 0).double().mean(dim=(2, 3))
    # Results of the first group see a large second input, those of the second a large first one.
    assert (shares[:3, 0] > shares[:3, 1]).all() and (shares[3:, 0] < shares[3:, 1]).all()
    assert torch.equal((second == 0).double().mean(dim=(0, 2, 3)), torch.full((5,), 0.5).double())
    with pytest.raises(ConfigError, match="knows linear layers and convolutions"):
        layer = trace(nn.Bilinear(3, 4, 2), (torch.randn(2, 3), torch.randn(2, 4)))
        data = [(torch.randn(2, 3), torch.randn(2, 4))]
        prune_transform_pass(layer, {"sparsity": 0.5, "criterion": "wanda", "data": [[*data[0]]]})


@pytest.mark.parametrize("criterion", ["random", "wanda", "movement"])
def test_a_weight_that_several_steps_share_is_pruned_once(criterion):
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.steps, self.last = nn.LSTM(6, 4, batch_first=True), nn.Linear(4, 3)

        def forward(self, x):
            return self.last(self.steps(x)[0][:, -1])

    x = torch.randn(12, 5, 6)
    arguments = {"sparsity": 0.5, "criterion": criterion, "data": [(x, torch.arange(12) % 3)]}
    _, info = prune_transform_pass(trace(Recurrent().eval(), x), arguments)
    assert len(info["nodes"]) > 3
    assert set(info["nodes"].values()) == {0.5}


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
        (parameters, {"sparsity": 0.5, "criterion": "wanda", "scope": "global"}, "of one result"),
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

    torch.manual_seed(0)
    model = Layers(
        lambda m, x: m.last(torch.relu(torch.addmm(m.bias, x, m.weight))),
        weight=nn.Parameter(torch.randn(6, 8)),
        bias=nn.Parameter(torch.randn(8)),
        last=nn.Linear(8, 3),
    ).eval()
    x = torch.randn(5, 6)
    mg = trace(model, x)
    pruned, info = prune_transform_pass(mg, {"sparsity": 0.5})
    assert list(info["nodes"].values()) == [0.5, 0.5]
    assert report_sparsity_analysis_pass(canonicalize(pruned))[1]["sparsity"] == 0.5
    _, info = insert_lora_adapter_transform_pass(mg, {"rank": 2})
    assert len(info["nodes"]) == 2
    assert torch.allclose(insert_lora_adapter_transform_pass(mg, {"rank": 2})[0](x), model(x))
