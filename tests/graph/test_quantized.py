"""The quantised model: its Python numbers, and graphs whose inputs are whole numbers."""

import pytest
import torch
from torch import nn

from mase_hw.emit.flow import quantize
from mase_hw.errors import MaseError
from mase_hw.graph import trace
from mase_hw.graph.quantized import GraphRun
from mase_hw.graph.reference import IntegerReference, spec
from mase_hw.ops import Apply
from mase_hw.passes.compression.lora import insert_lora_adapter_transform_pass
from mase_hw.passes.configuration import FLOAT
from tests.modules import Layers

FIXED = {"name": "fixed", "data_in_width": 16, "weight_width": 16, "bias_width": 16}


def tokens():
    """Return a model of numbers that are no integers, behind indices."""

    def function(m, ids):
        x = m.embedding(ids)
        x = x * 0.5 + 0.044715 * x - (1.5 - x) / 4
        return m.head(x), ids + 1, ids * 0.5

    return Layers(function, embedding=nn.Embedding(9, 6), head=nn.Linear(6, 3)).eval()


IDS = torch.arange(12).reshape(3, 4) % 9
CONFIGS = {
    "nothing": FLOAT,
    "linear": {"by": "type", "linear": {"config": FIXED}},
    "all": {"default": {"config": FIXED}},
}


@pytest.mark.parametrize("name", ["nothing", "linear"])
def test_numbers_keep_their_values_behind_whole_numbers(name):
    model = tokens()
    mg = quantize(trace(model, IDS), CONFIGS[name])
    with torch.no_grad():
        found, expected = GraphRun(mg, only=())([IDS]), model(IDS)
    for left, right in zip(found, expected, strict=True):
        assert left.dtype == right.dtype
        assert torch.equal(left, right)


def test_numbers_are_rounded_in_their_format():
    model = tokens()
    mg = quantize(trace(model, IDS), CONFIGS["all"])
    with torch.no_grad():
        found, expected = mg(IDS), model(IDS)
    torch.testing.assert_close(found[0], expected[0], rtol=0, atol=1e-2)


def test_a_graph_of_whole_numbers_is_quantized_when_a_layer_is():
    mg = trace(tokens(), IDS)
    assert not mg.is_quantized
    assert not quantize(mg, CONFIGS["nothing"]).is_quantized
    assert quantize(mg, CONFIGS["linear"]).is_quantized
    with pytest.raises(MaseError, match="quantized"):
        insert_lora_adapter_transform_pass(quantize(mg, CONFIGS["linear"]), {"rank": 2})


def test_what_comes_from_a_float_layer_is_rounded_by_its_consumer():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 6), nn.GELU(), nn.Linear(6, 3)).eval()
    x = torch.randn(32, 6)
    entry = {"name": "fixed", "data_in_width": 4, "weight_width": 4}
    mg = quantize(trace(model, x), {"by": "type", "linear": {"config": entry}})
    first, last = (mg.call(mg.node(name)) for name in ("linear_0", "linear_2"))

    def rounded(values, spec):
        return spec.format.round_values(values)

    def layer(call, module, values):
        weight, bias = (
            rounded(getattr(module, name), call.operands[name]) for name in ("weight", "bias")
        )
        values = rounded(values, call.operands["data_in_0"])
        return rounded(nn.functional.linear(values, weight, bias), call.result)

    hidden = nn.functional.gelu(layer(first, model[0], x))
    with torch.no_grad():
        assert torch.equal(mg(x), layer(last, model[2], hidden))


def test_chance_is_for_training():
    torch.manual_seed(0)
    x = torch.randn(64, 6)
    entry = {"name": "binary", "data_in_stochastic": True, "weight_stochastic": True}
    model = nn.Sequential(nn.Linear(6, 3)).eval()
    mg = quantize(trace(model, x), {"by": "type", "linear": {"config": entry}})
    assert torch.equal(mg(x), mg(x))
    mg.train()
    assert not torch.equal(mg(x), mg(x))


def test_quantizing_a_graph_again_leaves_it_as_it_was():
    model, x = nn.Sequential(nn.Linear(6, 3)).eval(), torch.randn(8, 6)
    mg = quantize(
        trace(model, x), {"by": "type", "linear": {"config": {**FIXED, "weight_width": 3}}}
    )
    before = mg(x)
    quantize(mg, FLOAT)
    assert mg.is_quantized
    assert torch.equal(mg(x), before)


@pytest.mark.parametrize("kept", [True, False])
def test_a_reference_that_is_not_kept_computes_the_same(kept, monkeypatch):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(18, 3))
    mg = quantize(trace(model, torch.randn(4, 1, 5, 5)))
    codes = spec(mg.inputs[0]).quantized.random_codes((11, 1, 1, 5, 5), torch.Generator())
    (whole,) = IntegerReference(mg)([codes]).values()
    # Fewer inferences at a time than there are.
    monkeypatch.setattr("mase_hw.graph.reference.CHUNK_ELEMENTS", 60)
    (found,) = IntegerReference(mg, kept=kept)([codes]).values()
    assert torch.equal(found, whole)


def test_whole_numbers_that_a_format_does_not_hold_are_its_nearest_ones():
    fractions = {"name": "fixed", "data_in_width": 6, "data_in_frac_width": 9}
    whole = Apply(lambda x, numbers: x * 0 + numbers, torch.tensor([[3, 1, 0, -2]]))
    mg = quantize(trace(whole, torch.randn(2, 4)), {"default": {"config": fractions}})
    step = 2.0**-9
    assert torch.equal(mg(torch.randn(1, 4)), torch.tensor([[31, 31, 0, -32]]) * step)
