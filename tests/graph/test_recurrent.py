"""Recurrent layers are captured step by step, and compute what torch's own compute."""

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

import mase_hw
from mase_hw.emit.flow import quantize
from mase_hw.emit.preflight import preflight
from tests.modules import Layers

KINDS = {
    "LSTM": nn.LSTM,
    "GRU": nn.GRU,
    "tanh": nn.RNN,
    "relu": lambda *sizes, **options: nn.RNN(*sizes, nonlinearity="relu", **options),
}


class Model(nn.Module):
    """A layer in a model whose batch comes first; it returns its results and last states."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, values, *states):
        values = values if self.layer.batch_first else values.transpose(0, 1)
        given = tuple(state.transpose(0, 1) for state in states)
        found, last = self.layer(
            values, *([given if len(given) > 1 else given[0]] if given else [])
        )
        found = found if self.layer.batch_first else found.transpose(0, 1)
        last = last if isinstance(last, tuple) else (last,)
        return found, *(state.transpose(0, 1) for state in last)


def results_of(layer):
    return Layers(lambda m, values: m.layer(values)[0], layer=layer)


def close(model, inputs):
    mg = mase_hw.trace(model.eval(), inputs)
    assert mg.batched
    assert not any("aten.lstm" in str(node.target) for node in mg.nodes)
    more = tuple(torch.cat([value, value.flip(0)]) for value in inputs)
    for found, expected in zip(mg(*more), model(*more), strict=True):
        torch.testing.assert_close(found, expected)
    return mg


# Each pair of choices occurs.
OPTIONS = ((True, True, 1, True), (True, False, 2, False), (False, True, 2, False))


@pytest.mark.first(2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("bias", "bidirectional", "layers", "batch_first"), OPTIONS)
def test_a_layer_is_its_steps(kind, bias, bidirectional, layers, batch_first):
    torch.manual_seed(0)
    options = {"bias": bias, "bidirectional": bidirectional, "batch_first": batch_first}
    layer = KINDS[kind](3, 4, num_layers=layers, **options)
    values = torch.randn(3, 3, 3)
    close(Model(layer), (values,))
    count = 2 if kind == "LSTM" else 1
    states = [torch.randn(3, layers * (2 if bidirectional else 1), 4) for _ in range(count)]
    close(Model(layer), (values, *states))


@pytest.mark.first(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch_first", [True, False])
def test_a_sequence_without_a_batch_is_one_inference(kind, batch_first):
    torch.manual_seed(0)
    layer = KINDS[kind](3, 4, num_layers=2, batch_first=batch_first).eval()
    values = torch.randn(5, 3)
    mg = mase_hw.trace(layer, values)
    for found, expected in zip(tree_leaves(mg(values)), tree_leaves(layer(values)), strict=True):
        torch.testing.assert_close(found, expected)
    assert not preflight(quantize(mase_hw.trace(results_of(layer), values)))


def test_projections_and_dropout():
    torch.manual_seed(0)
    layer = nn.LSTM(3, 5, 2, proj_size=2, dropout=0.5, batch_first=True)
    close(Model(layer), (torch.randn(3, 4, 3),))


@pytest.mark.parametrize("kind", [nn.RNNCell, nn.GRUCell, nn.LSTMCell])
@pytest.mark.parametrize("given", [True, False])
def test_a_cell_is_its_step(kind, given):
    torch.manual_seed(0)
    cell, values = kind(3, 4).eval(), torch.randn(3, 3)
    state = torch.randn(3, 4)

    def loop(m, x, start):
        pair = isinstance(m.cell, nn.LSTMCell)
        hidden = (start, start) if pair else start
        hidden = m.cell(x, hidden) if given else m.cell(x + start[:, :3])
        hidden = m.cell(x, hidden)
        return hidden[0] if pair else hidden

    model = Layers(loop, cell=cell).eval()
    mg = mase_hw.trace(model, (values, state))
    assert mg.batched
    torch.testing.assert_close(mg(values, state), model(values, state))


def test_steps_share_the_weights_of_the_layer():
    mg = mase_hw.trace(Model(nn.GRU(3, 4, batch_first=True)), torch.randn(2, 5, 3))
    hidden = [node for node in mg.nodes if "weight_hh" in str(node.target)]
    assert len(hidden) == 1
    assert len(hidden[0].users) == 4


def test_the_module_is_left_as_it_was():
    forward = nn.LSTM.forward
    mase_hw.trace(Model(nn.LSTM(3, 4, batch_first=True)), torch.randn(2, 3, 3))
    assert nn.LSTM.forward is forward


@pytest.mark.parametrize("kind", ["LSTM", pytest.param("GRU", marks=pytest.mark.full)])
def test_a_layer_is_bit_exact(kind, tmp_path):
    torch.manual_seed(0)
    model = Model(KINDS[kind](3, 2, batch_first=True)).eval()
    graph = quantize(mase_hw.trace(model, torch.randn(8, 2, 3), name="steps"))
    project = mase_hw.emit_verilog(graph, output=tmp_path / "steps")
    assert mase_hw.simulate(project, samples=20, stall=0.3).bit_exact


def heads(unbinds):
    """Return a model that takes apart what one layer computes, as vision transformers do."""

    def function(m, x):
        parts = m.layer(x).reshape(x.shape[0], -1, 3, 2, 2).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind(0) if unbinds else (parts[0], parts[1], parts[2])
        return (query @ key.transpose(-2, -1)) @ value

    return Layers(function, layer=nn.Linear(4, 12)).eval()


@pytest.mark.parametrize("unbinds", [True, False])
def test_what_is_taken_apart_behind_a_permutation_keeps_the_batch_first(unbinds):
    torch.manual_seed(0)
    model, x = heads(unbinds), torch.randn(3, 5, 4)
    mg = mase_hw.trace(model, x)
    assert mg.batched
    torch.testing.assert_close(mg(x), model(x))
    assert preflight(quantize(mg)) == []
